"""From LitData's ``data_spec``, the tree every item of a dataset is, to columns.

A dict becomes one column per key; a list or tuple one per place, named "0", "1" and so on; below, they become structs
with fields of the same names. An item that is a single value is one column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

#: Columns of items that are one value.
TOKENS: Final = "tokens"
VALUE: Final = "value"
#: pytree's names of nodes whose context is the list of their keys.
_DICTS: Final = frozenset({"builtins.dict", "collections.OrderedDict"})


@attrs.frozen(slots=True)
class Node:
    """A field: a leaf of an item, or a struct of further fields.

    Attributes:
        name: of the field.
        leaf: which leaf of the item; None for a struct.
        children: fields of a struct.
    """

    name: str
    leaf: int | None
    children: Sequence[Node] = ()

    def leaves(self) -> list[int]:
        """The leaves in it."""
        return [self.leaf] if self.leaf is not None else [leaf for child in self.children for leaf in child.leaves()]

    def type_of(self, types: Sequence[pa.DataType]) -> pa.DataType:
        """Its Arrow type, given those of all leaves."""
        if self.leaf is not None:
            return types[self.leaf]
        return pa.struct([(child.name, child.type_of(types)) for child in self.children])

    def array_of(self, leaf: Callable[[int], pa.Array]) -> pa.Array:
        """Its values, given those of leaves."""
        if self.leaf is not None:
            return leaf(self.leaf)
        names = [child.name for child in self.children]
        return pa.StructArray.from_arrays([child.array_of(leaf) for child in self.children], names)


def columns_of(spec: str, leaves: int, is_tokens: bool) -> list[Node]:
    """The columns of items.

    Args:
        spec: ``data_spec`` of index.json; "" where it has none.
        leaves: how many an item has.
        is_tokens: whether items are token streams.

    Raises:
        ValueError: the tree is not one of dicts, lists and tuples with so many leaves.
    """
    if is_tokens:
        return [Node(TOKENS, 0)]
    if not spec:
        return [Node(str(place), place) for place in range(leaves)]
    counter = iter(range(leaves))
    try:
        _, stated = json.loads(spec)
        root = _node(VALUE, stated, counter)
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise ValueError(f"data_spec cannot be read: {type(error).__name__}: {error}") from error
    if next(counter, None) is not None:
        raise ValueError(f"data_spec has fewer leaves than the {leaves} of data_format")
    return [root] if root.leaf is not None else list(root.children)


def _node(name: str, stated: dict[str, Any], counter: Any) -> Node:
    kind, parts = stated["type"], stated["children_spec"]
    if kind is None:
        return Node(name, next(counter))
    if kind in _DICTS:
        names = [str(key) for key in json.loads(stated["context"])]
        if len(names) != len(parts) or len(set(names)) != len(names):
            raise ValueError(f"a dict of {len(parts)} values with the keys {names}")
    else:
        names = [str(place) for place in range(len(parts))]
    children = [_node(each, part, counter) for each, part in zip(names, parts, strict=True)]
    return Node(name, None, [child for child in children if child.leaf is not None or child.children])

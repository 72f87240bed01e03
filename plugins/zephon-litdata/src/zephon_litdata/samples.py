"""Sample chunks for the conformance kit, byte by byte as the format's documentation has them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

_SERIALIZERS = {"int64": "int", "double": "float", "bool": "bool", "string": "str", "binary": "bytes"}
_LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


class LitDataSamples:
    """Members the kit takes in place of its own."""

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("text", pa.string()),
            ("n", pa.int64()),
            ("score", pa.float64()),
            ("flag", pa.bool_()),
            ("meta", pa.struct([("raw", pa.binary()), ("page", pa.int64())])),
        ]
    )

    def write(self, path: Path, table: pa.Table) -> None:
        """A directory with an index.json and one chunk (none for no rows)."""
        path.mkdir(parents=True, exist_ok=True)
        serializers: list[str] = []
        spec = _spec(pa.struct(list(table.schema)), serializers)
        items = []
        for row in table.to_pylist():
            leaves = list(_leaves(row))
            items.append(struct.pack(f"<{len(leaves)}I", *map(len, leaves)) + b"".join(leaves))
        offsets = [4 * (len(items) + 2)]
        for item in items:
            offsets.append(offsets[-1] + len(item))
        chunk = struct.pack(f"<{len(items) + 2}I", len(items), *offsets) + b"".join(items)
        entry = {"chunk_bytes": len(chunk), "chunk_size": len(items), "dim": None, "filename": "chunk-0-0.bin"}
        config = {
            "chunk_bytes": 1 << 26,
            "chunk_size": None,
            "compression": None,
            "data_format": serializers,
            "data_spec": json.dumps([1, spec]),
            "encryption": None,
            "item_loader": "PyTreeLoader",
        }
        if items:
            (path / "chunk-0-0.bin").write_bytes(chunk)
        stated = {"chunks": [entry] if items else [], "config": config}
        (path / "index.json").write_text(json.dumps(stated, sort_keys=True))


def _spec(kind: pa.DataType, serializers: list[str]) -> dict[str, Any]:
    if not pa.types.is_struct(kind):
        serializers.append(_SERIALIZERS[str(kind)])
        return _LEAF
    names = [field.name for field in kind]
    children = [_spec(field.type, serializers) for field in kind]
    return {"type": "builtins.dict", "context": json.dumps(names), "children_spec": children}


def _leaves(value: Any) -> Any:
    if isinstance(value, dict):
        for child in value.values():
            yield from _leaves(child)
    elif isinstance(value, bool):
        yield bytes([value])
    elif isinstance(value, (int, float)):
        yield struct.pack("<q" if isinstance(value, int) else "<d", value)
    else:
        yield value.encode() if isinstance(value, str) else value

"""The shard format ``megatron``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.block import META_ROLE
from zephon.errors import ConfigError
from zephon_megatron import indexed
from zephon_megatron.arrays import NPY, HeaderError, index_array, parse_header
from zephon_megatron.files import beside
from zephon_megatron.indexed import BIN, IDX, index_indexed
from zephon_megatron.layout import Layout, token_type
from zephon_megatron.reader import MegatronReader
from zephon_megatron.token_file import DS, index_token_file


def _positive(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise _invalid(attribute.name, value, "a number of tokens, at least 1")


def _needs_window(instance: MegatronFormat, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and instance.window is None:
        raise ConfigError(
            "stride says where windows begin, and there is no window",
            found=f"stride={value}, window=None",
            fix=f"pass window={value} as well, or leave stride out",
            code="option-conflict",
        )


def _known_rows(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value not in ("documents", "sequences"):
        raise _invalid("rows", value, '"documents" or "sequences"')


def _known_size(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value not in (None, 2, 4):
        raise _invalid("token_size", value, "2 or 4")


def _name(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise _invalid("field", value, "a name")


def _invalid(name: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(
        f"{name} of the format megatron must be {expected}",
        found=repr(value),
        fix=f"pass {expected}, or leave {name} out",
        code="option-invalid",
    )


@attrs.frozen(slots=True, kw_only=True)
class MegatronFormat(ShardFormat):
    """Tokens in Megatron ``.bin``/``.idx``, datatrove ``.ds`` and ``.npy`` files; one file of tokens is one shard.

    Attributes:
        window: tokens of a row; None for rows that are documents. Windows run across documents; what is left over at
            the end of a file and fills no window is no row.
        stride: tokens between the beginnings of two windows; None for windows that follow each other.
        rows: "documents", or the "sequences" that Megatron's documents are made of.
        token_size: bytes of a token in ``.ds`` files that say it nowhere.
        field: name of the column.
    """

    window: int | None = attrs.field(default=None, validator=_positive)
    stride: int | None = attrs.field(default=None, validator=[_positive, _needs_window])
    rows: Literal["documents", "sequences"] = attrs.field(default="documents", validator=_known_rows)
    token_size: int | None = attrs.field(default=None, validator=_known_size)
    field: str = attrs.field(default="input_ids", validator=_name)

    def recognise(self, head: FileHead) -> bool:
        """An index of Megatron by its magic, an array of integers by its header, a token file by its suffix.

        ``.bin`` files say nothing of themselves: the ``.idx`` file beside them is recognised.
        """
        if head.head.startswith(indexed.MAGIC):
            return True
        try:
            return parse_header(head.head).holds_tokens
        except HeaderError:
            return _has_suffix(head.info, DS)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """``.bin`` files with an ``.idx`` file beside them, ``.ds`` and ``.npy`` files; one ``.bin`` file alone."""
        names = {file.name for file in files}
        for file in files:
            if _base_name(file).startswith((".", "_")):
                continue
            paired = _has_suffix(file, BIN) and (len(files) == 1 or beside(file.name, BIN, IDX) in names)
            if paired or _has_suffix(file, DS, NPY):
                yield Shard(url=file.url, name=file.name or _base_name(file), file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Read what is written about the tokens, none of the tokens themselves.

        Raises:
            ShardError: ``shard-truncated``, ``shard-corrupt``, ``shard-unsupported``.
            ConfigError: ``window-missing``, ``token-size-missing``, ``option-conflict``.
        """
        layout = self._layout(shard, context)
        if self.window is not None:
            layout = attrs.evolve(
                layout, window=self.window, stride=self.stride or self.window, bounds=np.zeros(1, dtype=np.int64)
            )
        kind = token_type(np.dtype(layout.dtype))
        role = {META_ROLE: b"tokens"} if pa.types.is_integer(kind) else None
        schema = pa.schema([pa.field(self.field, pa.list_(kind), metadata=role)])
        return ShardIndex(rows=layout.rows, schema=schema, blob=layout.to_blob())

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> MegatronReader:
        """See :class:`zephon_megatron.reader.MegatronReader`."""
        return MegatronReader(shard, index, context)

    def _layout(self, shard: Shard, context: ShardContext) -> Layout:
        is_stream = self.window is not None
        if _has_suffix(shard.file, DS):
            return index_token_file(shard, context, token_size=self.token_size, needs_bounds=not is_stream)
        if _has_suffix(shard.file, NPY):
            return index_array(shard, context, is_stream=is_stream)
        return index_indexed(shard, context, by_sequence=self.rows == "sequences")


def _base_name(file: FileInfo) -> str:
    return (file.name or file.url).rstrip("/").rpartition("/")[2]


def _has_suffix(file: FileInfo, *suffixes: str) -> bool:
    return _base_name(file).lower().endswith(suffixes)

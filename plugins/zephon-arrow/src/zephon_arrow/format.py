"""Arrow IPC data as shards."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import pyarrow as pa

from zephon.abc import FileHead, FileInfo, Shard, ShardContext, ShardFormat, ShardIndex
from zephon.block import canonical_schema
from zephon.errors import ConfigError, DataError, ShardError
from zephon_arrow.errors import corrupt, unsupported
from zephon_arrow.indexer import FEATHER_V1, MAGIC, read_layout
from zephon_arrow.layout import Layout
from zephon_arrow.plugin import arrow
from zephon_arrow.reader import ArrowReader
from zephon_arrow.writer import write_shard

#: How a stream begins: a continuation mark, a length below 64 MiB (so a fourth byte of at most 3), a FlatBuffer.
_STREAM: Final = b"\xff\xff\xff\xff"
#: What the Hugging Face library puts beside the data of a dataset that has been opened and worked with.
_DATASET_MARKS: Final = ("state.json", "dataset_info.json")
_CACHES: Final = ("cache-*", "tmp*", "*.incomplete")


@attrs.frozen(slots=True, kw_only=True)
class ArrowFormat(ShardFormat):
    """Arrow IPC files and streams, one shard each; a unit is a record batch.

    Attributes:
        split: of a Hugging Face ``DatasetDict`` saved to disk, the split to read.
    """

    split: str = ""

    def recognise(self, head: FileHead) -> bool:
        """By the first bytes; a file that is too short for that, by its suffix."""
        data = head.head
        if data.startswith((MAGIC, FEATHER_V1)):
            return True
        if data.startswith(_STREAM):
            return len(data) >= 8 and 0 < int.from_bytes(data[4:8], "little", signed=True) < 1 << 26
        return len(data) < 8 and _has_suffix(head.info)

    def discover(self, files: Sequence[FileInfo]) -> Iterator[Shard]:
        """Every file with an Arrow suffix, or the only file there is; of Hugging Face folders, what is data.

        Raises:
            ConfigError: ``split-unknown``, which split of a DatasetDict is meant.
            ShardError: ``shard-unsupported``, a selection of rows stored as such by a very old version.
        """
        marked = {_folder(file) for file in files if _base(file) in _DATASET_MARKS}
        chosen = [file for file in self._of_split(files) if _has_suffix(file)]
        if not chosen and len(files) == 1:
            chosen = list(files)
        for file in chosen:
            name = _base(file)
            if _folder(file) in marked:
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in _CACHES):
                    continue
                if name == "indices.arrow":
                    shard = Shard(url=file.url, name=file.name, file=file)
                    fix = (
                        "load it with the library that wrote it and save it again: flatten_indices().save_to_disk(...)"
                    )
                    raise unsupported(shard, "it selects rows of the files beside it", fix)
            yield Shard(url=file.url, name=file.name or name, file=file)

    def index(self, shard: Shard, context: ShardContext) -> ShardIndex:
        """Find the record batches; no column is read.

        Raises:
            ShardError: ``shard-corrupt``, ``shard-truncated``; ``shard-unsupported`` for Feather version 1 and types
                that pyarrow does not know; ``duplicate-field``.
        """
        layout = read_layout(shard, context)
        try:
            schema = canonical_schema(pa.ipc.read_schema(pa.py_buffer(layout.schema.bytes)))
        except DataError as error:
            raise ShardError(
                f"{shard.name}: {error.what}", found=error.found, fix=error.fix, code=error.code
            ) from error
        except pa.ArrowNotImplementedError as error:
            raise unsupported(shard, str(error), "write the file with other types") from error
        except (pa.ArrowException, OSError, ValueError) as error:
            raise corrupt(shard, f"its schema cannot be read: {error}") from error
        bounds = layout.bounds()
        units = bounds if len(bounds) == 1 else bounds[[True, *(bounds[1:] > bounds[:-1])]]
        return ShardIndex(rows=int(bounds[-1]), units=units, schema=schema, blob=layout.to_blob())

    def open(self, shard: Shard, index: ShardIndex, context: ShardContext) -> ArrowReader:
        """A reader; nothing is read yet."""
        return ArrowReader(shard, index.schema, Layout.from_blob(index.blob), context)

    def write(self, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Write one IPC file, not compressed, in record batches of at most 4096 rows and about 32 MiB."""
        write_shard(path, batches, schema)

    def _of_split(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        roots = [_folder(file) for file in files if _base(file) == "dataset_dict.json"]
        if not self.split and not roots:
            return list(files)
        root = min(roots, key=len, default="")
        found = {
            file.name.removeprefix(root).strip("/").partition("/")[0]: file
            for file in files
            if _base(file) in _DATASET_MARKS and _folder(file) != root and file.name.startswith(root)
        }
        splits = sorted(found)
        if not self.split and len(splits) <= 1:
            return list(files)
        if self.split not in splits or len(roots) != 1:
            example = {"split": (splits or ["train"])[-1]}
            raise ConfigError(
                f"no split {self.split!r} is there" if self.split else "a DatasetDict has several splits",
                found=f"splits {', '.join(splits) or 'none'} in {len(roots)} folders with dataset_dict.json",
                fix=f"say which one to read: format_options={example}, or give its folder as the path",
                code="split-unknown",
            )
        inside = f"{root}/{self.split}/".lstrip("/")
        return [file for file in files if file.name.startswith(inside)]


def _base(file: FileInfo) -> str:
    return (file.name or file.url).rpartition("/")[2]


def _folder(file: FileInfo) -> str:
    return file.name.rpartition("/")[0]


def _has_suffix(file: FileInfo) -> bool:
    return _base(file).lower().endswith(arrow.suffixes)

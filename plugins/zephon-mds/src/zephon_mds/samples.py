"""Sample shards for the conformance kit, byte by byte as the format's documentation has them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

_SCALARS = {"int64": ("int", "<q"), "double": ("float64", "<d")}


class MdsSamples:
    """Members the kit takes in place of its own."""

    schema: ClassVar[pa.Schema] = pa.schema(
        [("n", pa.int64()), ("raw", pa.binary()), ("score", pa.float64()), ("text", pa.string())]
    )

    def write(self, path: Path, table: pa.Table) -> None:
        """A directory with an index.json and one shard (none for no rows)."""
        path.mkdir(parents=True, exist_ok=True)
        encodings, sizes = [], []
        for field in table.schema:
            encoding, layout = _SCALARS.get(str(field.type), ("str" if field.type == pa.string() else "bytes", ""))
            encodings.append(encoding)
            sizes.append(struct.calcsize(layout) if layout else None)
        described = {
            "column_encodings": encodings,
            "column_names": table.schema.names,
            "column_sizes": sizes,
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": 1 << 26,
            "version": 2,
        }
        rows = [_row(list(row.values()), table.schema) for row in table.to_pylist()]
        description = json.dumps(described, sort_keys=True).encode()
        offsets = [4 * (len(rows) + 2) + len(description)]
        for row in rows:
            offsets.append(offsets[-1] + len(row))
        shard = struct.pack(f"<{len(rows) + 2}I", len(rows), *offsets) + description + b"".join(rows)
        entry = described | {
            "raw_data": {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}},
            "samples": len(rows),
            "zip_data": None,
        }
        if rows:
            (path / "shard.00000.mds").write_bytes(shard)
        stated = {"shards": [entry] if rows else [], "version": 2}
        (path / "index.json").write_text(json.dumps(stated, sort_keys=True))


def _row(values: list[object], schema: pa.Schema) -> bytes:
    head, body = b"", b""
    for value, field in zip(values, schema, strict=True):
        layout = _SCALARS.get(str(field.type), ("", ""))[1]
        encoded = struct.pack(layout, value) if layout else value.encode() if isinstance(value, str) else value
        assert isinstance(encoded, bytes)
        head += b"" if layout else struct.pack("<I", len(encoded))
        body += encoded
    return head + body

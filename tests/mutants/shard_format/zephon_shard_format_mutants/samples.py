"""What the author of a toy tells the kit."""

import json
import struct
import zlib

SUITE = "ShardFormatTests"


class Samples:
    """A raw writer of the toy layout: magic, number of rows, a CRC, then each row as its length and JSON."""

    nulls = True

    def write(self, path, table):
        rows = [json.dumps(row).encode() for row in table.to_pylist()]
        body = b"".join(struct.pack("<I", len(row)) + row for row in rows)
        path.with_suffix(".toy").write_bytes(struct.pack("<4sII", b"TOY1", len(rows), zlib.crc32(body)) + body)

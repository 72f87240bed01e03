"""The conformance kit, on files the standard library wrote."""

import json

import pyarrow as pa

from zephon_testkit import ShardFormatTests


class TestJsonl(ShardFormatTests):
    plugin = "jsonl"
    nulls = True
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("n", pa.int64()),
            ("score", pa.float64()),
            ("flag", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("meta", pa.struct([("lang", pa.string()), ("page", pa.int64())])),
        ]
    )

    def write(self, path, table):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()]
        path.with_suffix(".jsonl").write_text("".join(lines), encoding="utf-8")

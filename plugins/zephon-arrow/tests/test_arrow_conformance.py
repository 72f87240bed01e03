"""The conformance kit, on files pyarrow wrote."""

import pyarrow as pa
import pyarrow.feather as feather

from zephon_testkit import ShardFormatTests

SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("n", pa.int32()),
        ("kind", pa.string()),
        ("score", pa.float64()),
        ("raw", pa.binary()),
        ("tokens", pa.list_(pa.int32())),
        ("meta", pa.struct([("lang", pa.string()), ("page", pa.int64())])),
    ]
)


def encoded(table):
    """The table, one column of it dictionary-encoded."""
    table = table.combine_chunks()
    position = table.schema.get_field_index("kind")
    return table.set_column(position, "kind", table.column("kind").dictionary_encode())


class TestArrowFile(ShardFormatTests):
    plugin = "arrow"
    nulls = True
    schema = SCHEMA

    def write(self, path, table):
        table = encoded(table)
        with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=10)


class TestArrowStream(TestArrowFile):
    def write(self, path, table):
        table = encoded(table)
        with pa.ipc.new_stream(path.with_suffix(".arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=10)


class TestFeather(TestArrowFile):
    def write(self, path, table):
        feather.write_feather(encoded(table), path.with_suffix(".feather"), compression="zstd", chunksize=10)

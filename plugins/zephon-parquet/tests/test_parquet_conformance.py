"""The conformance kit, on files pyarrow wrote."""

import pyarrow as pa
import pyarrow.parquet as pq

from zephon_testkit import ShardFormatTests


class TestParquet(ShardFormatTests):
    plugin = "parquet"
    nulls = True
    schema = pa.schema(
        [
            ("text", pa.large_string()),
            ("n", pa.int32()),
            ("score", pa.float64()),
            ("raw", pa.binary()),
            ("tokens", pa.list_(pa.int32())),
            ("meta", pa.struct([("lang", pa.string()), ("page", pa.int64())])),
        ]
    )

    def write(self, path, table):
        pq.write_table(table, path.with_suffix(".parquet"), row_group_size=10)

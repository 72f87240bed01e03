"""The conformance kit, on files the standard library and pyarrow wrote."""

import csv
import gzip

import pyarrow as pa
import pyarrow.csv as pacsv

from zephon_csv.samples import TextSamples
from zephon_testkit import ShardFormatTests


class TestCsv(ShardFormatTests):
    plugin = "csv"
    schema = pa.schema([("text", pa.string()), ("n", pa.int64()), ("score", pa.float64()), ("flag", pa.bool_())])

    def write(self, path, table):
        pacsv.write_csv(table, path.with_suffix(".csv"))


class TestTsvInGzip(ShardFormatTests):
    plugin = "csv"

    def write(self, path, table):
        with gzip.open(path.with_suffix(".tsv.gz"), "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, dialect="excel-tab", quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(table.schema.names)
            writer.writerows(row.values() for row in table.to_pylist())


class TestText(TextSamples, ShardFormatTests):
    plugin = "text"

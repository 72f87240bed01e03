"""The conformance kit, on archives Python's tarfile wrote."""

import zstandard

from zephon_testkit import ShardFormatTests
from zephon_webdataset.samples import WebDatasetSamples


class TestWebDataset(WebDatasetSamples, ShardFormatTests):
    """Plain archives, whose members are read by range."""

    plugin = "webdataset"


class TestWebDatasetInZstd(WebDatasetSamples, ShardFormatTests):
    """Compressed archives, read from their start."""

    plugin = "webdataset"

    def write(self, path, table):
        path.with_suffix(".tar.zst").write_bytes(zstandard.compress(self.archive(table)))

"""The conformance kit, on the local disk as it is and on fsspec's memory filesystem."""

from zephon_fsspec.samples import MemorySamples
from zephon_testkit import StorageTests


class TestLocal(StorageTests):
    plugin = "local"


class TestLocalByUrl(StorageTests):
    plugin = "local"

    def root(self, folder):
        return folder.as_uri()


class TestFsspec(MemorySamples, StorageTests):
    plugin = "fsspec"

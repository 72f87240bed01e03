"""The conformance kit, on the store the core comes with."""

from zephon_testkit import CheckpointStoreTests


class TestDirectory(CheckpointStoreTests):
    plugin = "directory"


class TestDirectoryByUrl(CheckpointStoreTests):
    plugin = "directory"

    def location(self, folder):
        return folder.as_uri()

"""The conformance kit on obstore's memory stores, which need no server."""

from zephon_obstore.samples import MemorySamples
from zephon_testkit import StorageTests


class TestObstore(MemorySamples, StorageTests):
    plugin = "obstore"

"""The conformance kit."""

from zephon_mds.samples import MdsSamples
from zephon_testkit import ShardFormatTests


class TestMds(MdsSamples, ShardFormatTests):
    plugin = "mds"

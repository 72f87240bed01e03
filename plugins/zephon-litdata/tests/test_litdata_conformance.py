"""The conformance kit."""

from zephon_litdata.samples import LitDataSamples
from zephon_testkit import ShardFormatTests


class TestLitData(LitDataSamples, ShardFormatTests):
    plugin = "litdata"

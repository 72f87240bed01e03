"""The conformance kit, on packing: every algorithm, every policy for long documents, every grouping."""

from zephon_pack.samples import PackFlatSamples
from zephon_testkit import LaneOperatorTests


class TestPackFlat(PackFlatSamples, LaneOperatorTests):
    plugin = "pack_flat"

"""The conformance kit, on every operator with the samples it ships with."""

from zephon_ops import samples
from zephon_testkit import LaneOperatorTests, RowOperatorTests


class TestMapTransform(samples.MapTransformSamples, RowOperatorTests):
    plugin = "map_transform"


class TestFilter(samples.FilterSamples, RowOperatorTests):
    plugin = "filter"


class TestMapBatch(samples.MapBatchSamples, RowOperatorTests):
    plugin = "map_batch"


class TestStatefulTransform(samples.StatefulTransformSamples, LaneOperatorTests):
    plugin = "stateful_transform"


class TestShuffle(samples.ShuffleSamples, LaneOperatorTests):
    plugin = "shuffle"


class TestEnsureMixture(samples.EnsureMixtureSamples, LaneOperatorTests):
    plugin = "ensure_mixture"


class TestBatch(samples.BatchSamples, LaneOperatorTests):
    plugin = "batch"

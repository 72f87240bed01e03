"""Descriptors of the operators; the implementations are imported when first used."""

from zephon.plugins import OperatorDescriptor

map_transform = OperatorDescriptor(
    name="map_transform",
    summary="apply a Python function to every row, or to whole record batches",
    impl="zephon_ops.map_transform:MapTransform",
    samples="zephon_ops.samples:MapTransformSamples",
)
filter = OperatorDescriptor(
    name="filter",
    summary="keep the rows a function or an Arrow expression is true for",
    impl="zephon_ops.filter:Filter",
    samples="zephon_ops.samples:FilterSamples",
)
map_batch = OperatorDescriptor(
    name="map_batch",
    summary="apply a Python function to every microbatch",
    impl="zephon_ops.map_batch:MapBatch",
    samples="zephon_ops.samples:MapBatchSamples",
)
stateful_transform = OperatorDescriptor(
    name="stateful_transform",
    summary="fold plain Python functions over the rows of each lane",
    impl="zephon_ops.stateful:StatefulTransform",
    samples="zephon_ops.samples:StatefulTransformSamples",
)
shuffle = OperatorDescriptor(
    name="shuffle",
    summary="shuffle the rows of each lane through a buffer that never warms up again",
    impl="zephon_ops.shuffle:Shuffle",
    samples="zephon_ops.samples:ShuffleSamples",
)
ensure_mixture = OperatorDescriptor(
    name="ensure_mixture",
    summary="reorder the rows of each lane so that the mixture stays on target, by tokens or rows",
    impl="zephon_ops.mixture:EnsureMixture",
    samples="zephon_ops.samples:EnsureMixtureSamples",
)
batch = OperatorDescriptor(
    name="batch",
    summary="cut the rows of each lane into microbatches",
    impl="zephon_ops.batch:BatchRows",
    samples="zephon_ops.samples:BatchSamples",
)

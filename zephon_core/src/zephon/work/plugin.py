"""What the core says of its own work source; the class is imported when first used."""

from zephon.plugins import WorkSourceDescriptor

static_mixture = WorkSourceDescriptor(
    name="static_mixture",
    summary="A weighted mixture of datasets, by a schedule or fixed, computed in closed form",
    impl="zephon.work.static:StaticMixtureWorkSource",
    samples="zephon.work.samples:StaticMixtureSamples",
)

"""What the core's own runner says of itself; it comes in through the door every runner uses."""

from zephon.plugins import RunnerDescriptor

inline = RunnerDescriptor(
    name="inline",
    summary="no workers: each task runs where it is submitted, for debugging and small data",
    impl="zephon.engine.inline:InlineRunner",
    samples="zephon.engine.samples:InlineSamples",
)

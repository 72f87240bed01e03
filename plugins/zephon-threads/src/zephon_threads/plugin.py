"""What the thread runner says of itself before its code is imported."""

from zephon.plugins import RunnerDescriptor

threads = RunnerDescriptor(
    name="threads",
    summary="a pool of threads in this process: nothing is copied, Arrow and tokenizers run in parallel",
    impl="zephon_threads._runner:ThreadRunner",
)

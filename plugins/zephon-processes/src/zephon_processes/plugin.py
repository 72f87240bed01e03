"""What the process runner says of itself before its code is imported."""

from zephon.plugins import RunnerDescriptor

processes = RunnerDescriptor(
    name="processes",
    summary="fresh interpreters on this machine: Python functions use all cores, a crash costs one worker",
    impl="zephon_processes._runner:ProcessRunner",
    capabilities={"hosts", "reports_workers"},
)

"""What the Ray runner says of itself before its code, and Ray, are imported."""

from zephon.plugins import RunnerDescriptor

ray = RunnerDescriptor(
    name="ray",
    summary="actors anywhere in a Ray cluster: more cores than one machine has, and machines may be lost",
    impl="zephon_ray._runner:RayRunner",
    capabilities={"reports_workers"},
)

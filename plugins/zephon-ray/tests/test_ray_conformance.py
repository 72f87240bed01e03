"""The conformance kit, on the Ray runner."""

from zephon_testkit import RunnerTests


class TestRay(RunnerTests):
    plugin = "ray"

"""The conformance kit."""

from zephon_testkit import RunnerTests


class TestProcesses(RunnerTests):
    plugin = "processes"

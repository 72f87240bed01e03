"""The conformance kit, on the thread runner."""

from zephon_testkit import RunnerTests


class TestThreads(RunnerTests):
    plugin = "threads"

"""The conformance kit, on the runner without workers."""

from zephon.engine.samples import InlineSamples
from zephon_testkit import RunnerTests


class TestInline(InlineSamples, RunnerTests):
    plugin = "inline"

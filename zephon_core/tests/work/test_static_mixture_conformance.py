"""The conformance kit, on the core's own curriculum."""

from zephon.work.samples import StaticMixtureSamples
from zephon_testkit import WorkSourceTests


class TestStaticMixture(StaticMixtureSamples, WorkSourceTests):
    plugin = "static_mixture"

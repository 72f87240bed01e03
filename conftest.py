"""What holds for all tests: property tests are about what is right, not about how fast a busy machine is today."""

from hypothesis import HealthCheck, settings

settings.register_profile("zephon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zephon")

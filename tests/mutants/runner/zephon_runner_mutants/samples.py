"""What an author would tell the kit."""

SUITE = "RunnerTests"


class Samples:
    """What never answers is waited for: briefly where it is a mutant."""

    parallelism = (1, 3)
    patience = 2.5

    def __init_subclass__(cls):
        if cls.plugin in ("minimal", "maximal"):
            cls.patience = 60.0

"""What an author would tell the kit."""

SUITE = "WorkSourceTests"

MIXED = {"schedule": [[0, {"a": 3, "b": 2, "c": 1}]], "seed": 3}
VARIED = (
    {"schedule": [[0, {"a": 1}], [15, {"b": 4, "a": 1}], [40, {"c": 1, "a": 2, "b": 2}]], "passes": 2, "chunk": 3},
    {"passes": None},
)


class Samples:
    """The minimal toy and its mutants take no settings; the maximal one and its mutants do."""

    lanes = (1, 3)

    def __init_subclass__(cls):
        from zephon_work_source_mutants.plugin import MIXTURES

        if cls.plugin in MIXTURES:
            cls.settings, cls.variants = MIXED, VARIED

"""Descriptors of the toys and of the mutants."""

from zephon.plugins import WorkSourceDescriptor


def _described(name, impl):
    return WorkSourceDescriptor(
        name=name,
        summary=f"a curriculum of the tests, {name.replace('_', ' ')}",
        impl=f"zephon_work_source_mutants.{impl}",
    )


#: Those that take the settings of the maximal toy.
MIXTURES = {
    "maximal",
    "caches_by_range_alone",
    "asks_the_clock",
    "keys_by_block",
    "hashes_names",
    "some_lanes_never_end",
    "counts_from_the_end",
    "phase_too_far",
    "one_epoch_for_all",
    "spec_without_seed",
    "spec_of_tuples",
    "forgets_a_setting",
    "ignores_the_seed",
    "hides_the_seed",
    "weights_as_shares",
    "says_what_it_has_read",
    "seeds_the_global_generator",
    "shuffles_globally",
    "accepts_anything",
    "raises_differences",
    "wears_out",
}

minimal = _described("minimal", "toys:Minimal")
maximal = _described("maximal", "toys:Maximal")
caches_by_range_alone = _described("caches_by_range_alone", "mutants:CachesByRangeAlone")
asks_the_clock = _described("asks_the_clock", "mutants:AsksTheClock")
keys_by_block = _described("keys_by_block", "mutants:KeysByBlock")
reads_a_row_too_many = _described("reads_a_row_too_many", "mutants:ReadsARowTooMany")
hashes_names = _described("hashes_names", "mutants:HashesNames")
asks_more_of_datasets = _described("asks_more_of_datasets", "mutants:AsksMoreOfDatasets")
enumerates = _described("enumerates", "mutants:Enumerates")
keeps_everything = _described("keeps_everything", "mutants:KeepsEverything")
length_off_by_one = _described("length_off_by_one", "mutants:LengthOffByOne")
some_lanes_never_end = _described("some_lanes_never_end", "mutants:SomeLanesNeverEnd")
clamps_like_a_slice = _described("clamps_like_a_slice", "mutants:ClampsLikeASlice")
counts_from_the_end = _described("counts_from_the_end", "mutants:CountsFromTheEnd")
trips_over_empty_ranges = _described("trips_over_empty_ranges", "mutants:TripsOverEmptyRanges")
rows_of_the_dataset = _described("rows_of_the_dataset", "mutants:RowsOfTheDataset")
phase_too_far = _described("phase_too_far", "mutants:PhaseTooFar")
one_epoch_for_all = _described("one_epoch_for_all", "mutants:OneEpochForAll")
lanes_overlap = _described("lanes_overlap", "mutants:LanesOverlap")
drops_the_tail = _described("drops_the_tail", "mutants:DropsTheTail")
skips_last_rows = _described("skips_last_rows", "mutants:SkipsLastRows")
spec_without_seed = _described("spec_without_seed", "mutants:SpecWithoutSeed")
spec_of_tuples = _described("spec_of_tuples", "mutants:SpecOfTuples")
forgets_a_setting = _described("forgets_a_setting", "mutants:ForgetsASetting")
ignores_the_seed = _described("ignores_the_seed", "mutants:IgnoresTheSeed")
hides_the_seed = _described("hides_the_seed", "mutants:HidesTheSeed")
orders_as_given = _described("orders_as_given", "mutants:OrdersAsGiven")
weights_as_shares = _described("weights_as_shares", "mutants:WeightsAsShares")
says_what_it_has_read = _described("says_what_it_has_read", "mutants:SaysWhatItHasRead")
shares_a_scratch_place = _described("shares_a_scratch_place", "mutants:SharesAScratchPlace")
seeds_the_global_generator = _described("seeds_the_global_generator", "mutants:SeedsTheGlobalGenerator")
shuffles_globally = _described("shuffles_globally", "mutants:ShufflesGlobally")
lends_its_cache = _described("lends_its_cache", "mutants:LendsItsCache")
reuses_its_buffer = _described("reuses_its_buffer", "mutants:ReusesItsBuffer")
compares_objects = _described("compares_objects", "mutants:ComparesObjects")
accepts_anything = _described("accepts_anything", "mutants:AcceptsAnything")
raises_differences = _described("raises_differences", "mutants:RaisesDifferences")
wears_out = _described("wears_out", "mutants:WearsOut")

"""Descriptors of the toys and of the mutants."""

from zephon.plugins import ShardFormatDescriptor

ALL = {"ranges", "predicate", "write"}


def _described(name, impl, capabilities):
    return ShardFormatDescriptor(
        name=name,
        summary=f"the toy layout, {name.replace('_', ' ')}",
        impl=f"zephon_shard_format_mutants.{impl}",
        capabilities=capabilities,
        suffixes=(".toy",),
    )


minimal = _described("minimal", "toys:Minimal", set())
maximal = _described("maximal", "toys:Maximal", ALL)
claims_everything = _described("claims_everything", "mutants:ClaimsEverything", set())
trips_over_short_files = _described("trips_over_short_files", "mutants:TripsOverShortFiles", set())
takes_readmes = _described("takes_readmes", "mutants:TakesReadmes", set())
numbers_by_listing = _described("numbers_by_listing", "mutants:NumbersByListing", set())
one_row_short = _described("one_row_short", "mutants:OneRowShort", set())
units_overlap = _described("units_overlap", "mutants:UnitsOverlap", ALL)
large_strings = _described("large_strings", "mutants:LargeStrings", set())
remembers_its_files = _described("remembers_its_files", "mutants:RemembersItsFiles", set())
off_by_one_after_a_gap = _described("off_by_one_after_a_gap", "mutants:OffByOneAfterAGap", set())
reads_a_row_too_many = _described("reads_a_row_too_many", "mutants:ReadsARowTooMany", set())
file_order_of_columns = _described("file_order_of_columns", "mutants:FileOrderOfColumns", set())
loses_rows_without_columns = _described("loses_rows_without_columns", "mutants:LosesRowsWithoutColumns", set())
cannot_go_back = _described("cannot_go_back", "mutants:CannotGoBack", set())
reuses_its_buffer = _described("reuses_its_buffer", "mutants:ReusesItsBuffer", set())
shares_a_place = _described("shares_a_place", "mutants:SharesAPlace", set())
opens_the_path_itself = _described("opens_the_path_itself", "mutants:OpensThePathItself", set())
leaves_files_open = _described("leaves_files_open", "mutants:LeavesFilesOpen", set())
leaves_threads = _described("leaves_threads", "mutants:LeavesThreads", set())
leaves_a_sidecar = _described("leaves_a_sidecar", "mutants:LeavesASidecar", set())
lets_errors_out = _described("lets_errors_out", "mutants:LetsErrorsOut", set())
fills_in_what_is_missing = _described("fills_in_what_is_missing", "mutants:FillsInWhatIsMissing", set())
trusts_an_old_index = _described("trusts_an_old_index", "mutants:TrustsAnOldIndex", set())
reads_bad_rows = _described("reads_bad_rows", "mutants:ReadsBadRows", set())
holds_a_live_object = _described("holds_a_live_object", "mutants:HoldsALiveObject", set())
touches_more_than_announced = _described("touches_more_than_announced", "mutants:TouchesMoreThanAnnounced", ALL)
hides_its_ranges = _described("hides_its_ranges", "mutants:HidesItsRanges", {"predicate", "write"})
excludes_the_largest = _described("excludes_the_largest", "mutants:ExcludesTheLargest", ALL)
says_it_has_predicates = _described("says_it_has_predicates", "mutants:SaysItHasPredicates", {"predicate"})
drops_the_last_batch = _described("drops_the_last_batch", "mutants:DropsTheLastBatch", ALL)
leaves_half_a_file = _described("leaves_half_a_file", "mutants:LeavesHalfAFile", ALL)
loses_rows_at_random = _described("loses_rows_at_random", "mutants:LosesRowsAtRandom", set())
names_shards_by_the_clock = _described("names_shards_by_the_clock", "mutants:NamesShardsByTheClock", set())
decides_by_hash = _described("decides_by_hash", "mutants:DecidesByHash", set())

"""Descriptors of the toys and of the mutants."""

from zephon.plugins import TokenizerDescriptor

ALL = {"train"}


def _described(name, impl, capabilities):
    return TokenizerDescriptor(
        name=name,
        summary=f"a tokenizer of bytes, {name.replace('_', ' ')}",
        impl=f"zephon_tokenizer_mutants.{impl}",
        capabilities=capabilities,
    )


minimal = _described("minimal", "toys:Minimal", set())
maximal = _described("maximal", "toys:Maximal", ALL)
has_small_offsets = _described("has_small_offsets", "mutants:HasSmallOffsets", set())
gives_ends_only = _described("gives_ends_only", "mutants:GivesEndsOnly", set())
pads_the_batch = _described("pads_the_batch", "mutants:PadsTheBatch", set())
cuts_long_batches = _described("cuts_long_batches", "mutants:CutsLongBatches", set())
ignores_the_offset = _described("ignores_the_offset", "mutants:IgnoresTheOffset", set())
numbers_as_they_come = _described("numbers_as_they_come", "mutants:NumbersAsTheyCome", set())
drops_at_random = _described("drops_at_random", "mutants:DropsAtRandom", set())
orders_by_hash = _described("orders_by_hash", "mutants:OrdersByHash", set())
leaves_out_empty_texts = _described("leaves_out_empty_texts", "mutants:LeavesOutEmptyTexts", set())
needs_a_text = _described("needs_a_text", "mutants:NeedsAText", set())
always_adds = _described("always_adds", "mutants:AlwaysAdds", set())
adds_to_odd_texts = _described("adds_to_odd_texts", "mutants:AddsToOddTexts", set())
has_no_pad_and_says_minus_one = _described("has_no_pad_and_says_minus_one", "mutants:HasNoPadAndSaysMinusOne", set())
pads_beyond_the_vocabulary = _described("pads_beyond_the_vocabulary", "mutants:PadsBeyondTheVocabulary", set())
counts_what_was_trained = _described("counts_what_was_trained", "mutants:CountsWhatWasTrained", set())
decodes_bytes_alone = _described("decodes_bytes_alone", "mutants:DecodesBytesAlone", set())
strips_texts = _described("strips_texts", "mutants:StripsTexts", set())
hashes_the_kind = _described("hashes_the_kind", "mutants:HashesTheKind", set())
hashes_the_place = _described("hashes_the_place", "mutants:HashesThePlace", set())
remembers_ids = _described("remembers_ids", "mutants:RemembersIds", set())
has_a_default = _described("has_a_default", "mutants:HasADefault", set())
lets_errors_out = _described("lets_errors_out", "mutants:LetsErrorsOut", set())
swallows_options = _described("swallows_options", "mutants:SwallowsOptions", set())
switches_special_tokens = _described("switches_special_tokens", "mutants:SwitchesSpecialTokens", set())
reuses_its_memory = _described("reuses_its_memory", "mutants:ReusesItsMemory", set())
gives_out_its_cache = _described("gives_out_its_cache", "mutants:GivesOutItsCache", set())
lowers_in_place = _described("lowers_in_place", "mutants:LowersInPlace", set())
sets_the_environment = _described("sets_the_environment", "mutants:SetsTheEnvironment", set())
seeds_numpy = _described("seeds_numpy", "mutants:SeedsNumpy", set())
leaves_threads = _described("leaves_threads", "mutants:LeavesThreads", set())
hides_its_training = _described("hides_its_training", "mutants:HidesItsTraining", set())
says_it_trains = _described("says_it_trains", "mutants:SaysItTrains", ALL)
trains_on_nothing = _described("trains_on_nothing", "mutants:TrainsOnNothing", ALL)
trains_into_folders_only = _described("trains_into_folders_only", "mutants:TrainsIntoFoldersOnly", ALL)
counts_its_calls = _described("counts_its_calls", "mutants:CountsItsCalls", set())

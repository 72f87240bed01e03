"""Descriptors of the toys and of the mutants."""

from zephon.plugins import CheckpointStoreDescriptor


def _described(name, impl):
    return CheckpointStoreDescriptor(
        name=name,
        summary=f"folders of the toy scheme, {name.replace('_', ' ')}",
        impl=f"zephon_checkpoint_store_mutants.{impl}",
        schemes=("toy",),
    )


minimal = _described("minimal", "toys:Minimal")
maximal = _described("maximal", "toys:Maximal")
gives_text = _described("gives_text", "mutants:GivesText")
ends_at_a_zero = _described("ends_at_a_zero", "mutants:EndsAtAZero")
keeps_one_rank = _described("keeps_one_rank", "mutants:KeepsOneRank")
has_a_leader = _described("has_a_leader", "mutants:HasALeader")
lists_what_was_begun = _described("lists_what_was_begun", "mutants:ListsWhatWasBegun")
loads_what_there_is = _described("loads_what_there_is", "mutants:LoadsWhatThereIs")
names_no_lanes = _described("names_no_lanes", "mutants:NamesNoLanes")
missing_is_empty = _described("missing_is_empty", "mutants:MissingIsEmpty")
makes_its_folder = _described("makes_its_folder", "mutants:MakesItsFolder")
sorts_texts = _described("sorts_texts", "mutants:SortsTexts")
has_twelve_digits = _described("has_twelve_digits", "mutants:HasTwelveDigits")
keeps_the_first = _described("keeps_the_first", "mutants:KeepsTheFirst")
believes_the_newer_run = _described("believes_the_newer_run", "mutants:BelievesTheNewerRun")
deletes_by_prefix = _described("deletes_by_prefix", "mutants:DeletesByPrefix")
deletes_what_counts = _described("deletes_what_counts", "mutants:DeletesWhatCounts")
misses_what_it_deletes = _described("misses_what_it_deletes", "mutants:MissesWhatItDeletes")
remembers_steps = _described("remembers_steps", "mutants:RemembersSteps")
remembers_states = _described("remembers_states", "mutants:RemembersStates")
mixes_moments = _described("mixes_moments", "mutants:MixesMoments")
keeps_a_list = _described("keeps_a_list", "mutants:KeepsAList")
has_one_temporary_file = _described("has_one_temporary_file", "mutants:HasOneTemporaryFile")
writes_in_place = _described("writes_in_place", "mutants:WritesInPlace")
removes_first = _described("removes_first", "mutants:RemovesFirst")
leaves_a_lock = _described("leaves_a_lock", "mutants:LeavesALock")
swallows_failures = _described("swallows_failures", "mutants:SwallowsFailures")
empties_first = _described("empties_first", "mutants:EmptiesFirst")
forgets_the_slash = _described("forgets_the_slash", "mutants:ForgetsTheSlash")
takes_lanes_away = _described("takes_lanes_away", "mutants:TakesLanesAway")
gives_out_its_own = _described("gives_out_its_own", "mutants:GivesOutItsOwn")
shows_its_options = _described("shows_its_options", "mutants:ShowsItsOptions")
quotes_urls = _described("quotes_urls", "mutants:QuotesUrls")
leaves_threads = _described("leaves_threads", "mutants:LeavesThreads")
keeps_the_last_three = _described("keeps_the_last_three", "mutants:KeepsTheLastThree")

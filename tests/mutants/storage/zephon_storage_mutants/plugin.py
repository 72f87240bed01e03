"""Descriptors of the toys and of the mutants."""

from zephon.plugins import StorageDescriptor

ALL = {"local_path", "write"}


def _described(name, impl, capabilities):
    return StorageDescriptor(
        name=name,
        summary=f"files of the toy scheme, {name.replace('_', ' ')}",
        impl=f"zephon_storage_mutants.{impl}",
        capabilities=capabilities,
        schemes=("toy",),
    )


minimal = _described("minimal", "toys:Minimal", set())
maximal = _described("maximal", "toys:Maximal", ALL)
counts_blocks = _described("counts_blocks", "mutants:CountsBlocks", set())
tells_the_time = _described("tells_the_time", "mutants:TellsTheTime", set())
takes_directories_for_files = _described("takes_directories_for_files", "mutants:TakesDirectoriesForFiles", set())
missing_is_empty = _described("missing_is_empty", "mutants:MissingIsEmpty", set())
looks_up_by_prefix = _described("looks_up_by_prefix", "mutants:LooksUpByPrefix", set())
hides_a_lack_of_rights = _described("hides_a_lack_of_rights", "mutants:HidesALackOfRights", set())
lists_what_it_may = _described("lists_what_it_may", "mutants:ListsWhatItMay", set())
stops_at_the_second_level = _described("stops_at_the_second_level", "mutants:StopsAtTheSecondLevel", set())
knows_one_page = _described("knows_one_page", "mutants:KnowsOnePage", set())
lists_directories = _described("lists_directories", "mutants:ListsDirectories", set())
compares_texts = _described("compares_texts", "mutants:ComparesTexts", set())
doubles_the_slash = _described("doubles_the_slash", "mutants:DoublesTheSlash", set())
resolves_escapes = _described("resolves_escapes", "mutants:ResolvesEscapes", set())
cuts_at_the_question_mark = _described("cuts_at_the_question_mark", "mutants:CutsAtTheQuestionMark", set())
sorts_ranges = _described("sorts_ranges", "mutants:SortsRanges", set())
joins_ranges = _described("joins_ranges", "mutants:JoinsRanges", set())
counts_the_last_byte = _described("counts_the_last_byte", "mutants:CountsTheLastByte", set())
reads_all_for_nothing = _described("reads_all_for_nothing", "mutants:ReadsAllForNothing", set())
needs_a_range = _described("needs_a_range", "mutants:NeedsARange", set())
gives_what_there_is = _described("gives_what_there_is", "mutants:GivesWhatThereIs", set())
maps_files = _described("maps_files", "mutants:MapsFiles", set())
reuses_its_memory = _described("reuses_its_memory", "mutants:ReusesItsMemory", set())
remembers_listings = _described("remembers_listings", "mutants:RemembersListings", set())
remembers_open_files = _described("remembers_open_files", "mutants:RemembersOpenFiles", set())
has_one_etag_for_all = _described("has_one_etag_for_all", "mutants:HasOneEtagForAll", set())
remembers_the_current_url = _described("remembers_the_current_url", "mutants:RemembersTheCurrentUrl", set())
belongs_to_one_thread = _described("belongs_to_one_thread", "mutants:BelongsToOneThread", set())
shows_its_options = _described("shows_its_options", "mutants:ShowsItsOptions", ALL)
quotes_its_options = _described("quotes_its_options", "mutants:QuotesItsOptions", ALL)
quotes_urls = _described("quotes_urls", "mutants:QuotesUrls", set())
leaves_files_open = _described("leaves_files_open", "mutants:LeavesFilesOpen", set())
notes_the_time = _described("notes_the_time", "mutants:NotesTheTime", set())
leaves_a_sidecar = _described("leaves_a_sidecar", "mutants:LeavesASidecar", set())
leads_elsewhere = _described("leads_elsewhere", "mutants:LeadsElsewhere", ALL)
hides_its_paths = _described("hides_its_paths", "mutants:HidesItsPaths", {"write"})
writes_the_whole_buffer = _described("writes_the_whole_buffer", "mutants:WritesTheWholeBuffer", ALL)
needs_directories = _described("needs_directories", "mutants:NeedsDirectories", ALL)
says_it_writes = _described("says_it_writes", "mutants:SaysItWrites", {"write"})
writes_in_place = _described("writes_in_place", "mutants:WritesInPlace", ALL)
removes_first = _described("removes_first", "mutants:RemovesFirst", ALL)
shows_its_temporary_files = _described("shows_its_temporary_files", "mutants:ShowsItsTemporaryFiles", ALL)
leaves_half_a_file = _described("leaves_half_a_file", "mutants:LeavesHalfAFile", ALL)
swallows_failures = _described("swallows_failures", "mutants:SwallowsFailures", ALL)
remembers_what_is_missing = _described("remembers_what_is_missing", "mutants:RemembersWhatIsMissing", set())

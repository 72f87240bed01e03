"""Descriptors of the toys and of the mutants."""

from zephon.plugins import RunnerDescriptor


def _described(name, impl, capabilities=frozenset()):
    return RunnerDescriptor(
        name=name,
        summary=f"a runner of the tests, {name.replace('_', ' ')}",
        impl=f"zephon_runner_mutants.{impl}",
        capabilities=capabilities,
    )


minimal = _described("minimal", "toys:Minimal")
maximal = _described("maximal", "toys:Maximal", {"hosts", "reports_workers"})
counts_twice = _described("counts_twice", "mutants:CountsTwice")
knows_itself_late = _described("knows_itself_late", "mutants:KnowsItselfLate")
takes_any_number = _described("takes_any_number", "mutants:TakesAnyNumber")
matches_by_completion = _described("matches_by_completion", "mutants:MatchesByCompletion")
remembers_by_hash = _described("remembers_by_hash", "mutants:RemembersByHash")
loses_tasks = _described("loses_tasks", "mutants:LosesTasks")
locks_around_tasks = _described("locks_around_tasks", "mutants:LocksAroundTasks")
runs_more_than_it_says = _described("runs_more_than_it_says", "mutants:RunsMoreThanItSays")
swallows_errors = _described("swallows_errors", "mutants:SwallowsErrors")
wraps_errors = _described("wraps_errors", "mutants:WrapsErrors")
drops_tracebacks = _described("drops_tracebacks", "mutants:DropsTracebacks")
masks_what_it_cannot_pickle = _described("masks_what_it_cannot_pickle", "mutants:MasksWhatItCannotPickle")
dies_with_its_task = _described("dies_with_its_task", "mutants:DiesWithItsTask")
opens_on_start = _described("opens_on_start", "mutants:OpensOnStart")
opens_per_task = _described("opens_per_task", "mutants:OpensPerTask")
shares_instances = _described("shares_instances", "mutants:SharesInstances")
never_closes = _described("never_closes", "mutants:NeverCloses")
closes_twice = _described("closes_twice", "mutants:ClosesTwice")
loses_metadata = _described("loses_metadata", "mutants:LosesMetadata")
loses_rows_without_columns = _described("loses_rows_without_columns", "mutants:LosesRowsWithoutColumns")
reuses_its_memory = _described("reuses_its_memory", "mutants:ReusesItsMemory")
takes_its_memory_back = _described("takes_its_memory_back", "mutants:TakesItsMemoryBack")
empties_tasks = _described("empties_tasks", "mutants:EmptiesTasks")
takes_tasks_after_close = _described("takes_tasks_after_close", "mutants:TakesTasksAfterClose")
starts_twice = _described("starts_twice", "mutants:StartsTwice")
runs_its_queue_to_the_end = _described("runs_its_queue_to_the_end", "mutants:RunsItsQueueToTheEnd")
drops_waiting_futures = _described("drops_waiting_futures", "mutants:DropsWaitingFutures")
closes_once = _described("closes_once", "mutants:ClosesOnce")
ignores_close = _described("ignores_close", "mutants:IgnoresClose")
leaks_a_thread = _described("leaks_a_thread", "mutants:LeaksAThread")
leaks_files = _described("leaks_files", "mutants:LeaksFiles")
leaks_shared_memory = _described("leaks_shared_memory", "mutants:LeaksSharedMemory")
leaves_children = _described("leaves_children", "mutants:LeavesChildren")
knows_its_owner = _described("knows_its_owner", "mutants:KnowsItsOwner")
cuts_what_is_large = _described("cuts_what_is_large", "mutants:CutsWhatIsLarge")
refuses_a_long_queue = _described("refuses_a_long_queue", "mutants:RefusesALongQueue")
shares_a_queue = _described("shares_a_queue", "mutants:SharesAQueue")
closes_all = _described("closes_all", "mutants:ClosesAll")
loses_the_task_of_a_lost_worker = _described("loses_the_task_of_a_lost_worker", "mutants:LosesTheTaskOfALostWorker")
says_nothing_of_a_lost_worker = _described("says_nothing_of_a_lost_worker", "mutants:SaysNothingOfALostWorker")
says_it_copies = _described("says_it_copies", "mutants:SaysItCopies")
remembers_by_lane = _described("remembers_by_lane", "mutants:RemembersByLane")
forgets_who_goes = _described("forgets_who_goes", "mutants:ForgetsWhoGoes", {"hosts", "reports_workers"})
says_it_reports = _described("says_it_reports", "mutants:SaysItReports", {"reports_workers"})
reports_unasked = _described("reports_unasked", "mutants:ReportsUnasked")
says_it_hosts = _described("says_it_hosts", "mutants:SaysItHosts", {"hosts"})
hosts_unasked = _described("hosts_unasked", "mutants:HostsUnasked", {"reports_workers"})
hosts_in_a_thread = _described("hosts_in_a_thread", "mutants:HostsInAThread", {"hosts", "reports_workers"})
hosts_and_swallows = _described("hosts_and_swallows", "mutants:HostsAndSwallows", {"hosts", "reports_workers"})

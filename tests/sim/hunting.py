"""Where each mutant of the engine is looked for: in the schedules that can show it, first where it was caught last."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tests.sim import (
    asked_mutants,
    batch_mutants,
    child_mutants,
    code_mutants,
    dag_mutants,
    fn_mutants,
    fork_mutants,
    gather_mutants,
    handed_mutants,
    lane_mutants,
    limit_mutants,
    lock_mutants,
    overlap_mutants,
    part_mutants,
    stream_mutants,
    task_mutants,
    throttle_mutants,
    undo_mutants,
    version_mutants,
    zombies,
)
from tests.sim.schedule import (
    ASKED_FROM,
    BATCHES_FROM,
    DEPLOYS_FROM,
    DURABLE_FROM,
    FAMILIES,
    GATHERED_FROM,
    HANDED_FROM,
    LANES_FROM,
    LIMITED_FROM,
    LOCKED_FROM,
    OUTPUTS_FROM,
    OVERLAPS_FROM,
    PARTS_FROM,
    PERMITTED_FROM,
    RACES_FROM,
    SHOWN_FROM,
    STREAMS_FROM,
    TASKS_FROM,
    THROTTLED_FROM,
    ZOMBIES_FROM,
    program_of,
)

MOST_SCHEDULES = 5_000  # of one mutant; the rarest is caught about once in 1,000
NEAR = {  # where a rare one was caught last: looked at first, then all the others
    "arrivals_reordered": 124,
    "begun_once": 91,
    "written_after_the_end": 857,
    "batches_without_end": 133,
    "handed_on_twice": 305,
    "claim_kept_by_failure": 56,
    "another_run_each_try": 260,
    "arrived_by_page": 84,
    "begun_by_nobody": 843,
    "cached_by_name": 6,
    "full_lane_asks": 731,
    "lane_judged_by_old_news": 47,
    "lane_left_open": 1_235,
    "lane_overwritten": 137,
    "moved_left_alive": 123,
    "page_asked_before_writing": 245,
    "page_not_reported": 105,
    "written_after_moving": 155,
    "cancel_untold": 8,
    "children_of_tasks_run_on": 100,
    "children_of_tasks_untold": 18,
    "closed_but_nested": 455,
    "committed_after_cancel": 887,
    "deploy_untold": 243,
    "each_page_for_itself": 271,
    "early_timer_lost": 37,
    "end_unseen": 53,
    "events_forgotten_by_continue_as": 289,
    "guests_choose_again": 1_207,
    "join_by_two": 375,
    "lease_not_asked": 101,
    "lives_share_slots": 29,
    "losers_run_on": 91,
    "never_caught_up": 12,
    "next_in_line_once": 92,
    "no_by": 223,
    "page_counted_twice": 102,
    "refusal_forgotten": 42,
    "refused_update_without_time": 506,
    "session_of_another_life": 876,
    "permit_granted_untold": 30,
    "permit_taken_blindly": 25,
    "shown_as_it_begins": 113,
    "shown_unread": 420,
    "started_after_end": 329,
    "status_overwritten": 294,
    "steps_without_writes": 76,
    "timer_of_one_slot": 92,
    "timer_of_tasks_overtaken": 105,
    "timer_sticks_to_its_word": 1_940,
    "told_one_too_late": 948,
    "told_to_any_wait": 10,
    "two_names_for_a_wake": 186,
    "votes_are_counted": 65,
    "wait_after_read": 181,
    "waits_for_ever": 65,
}
RARE = frozenset(  # caught slowly, or once in hundreds of schedules, none of which is known: a command of their own
    {
        "join_by_two",
        "lease_not_asked",
        "never_caught_up",
        "session_of_another_life",
        "timer_sticks_to_its_word",
    }
)

OF_FORKS = {mutant.__name__ for mutant in fork_mutants.OF_FORKS}
OF_SHOWN = {mutant.__name__ for mutant in fork_mutants.OF_SHOWN}
OF_CODE = {mutant.__name__ for mutant in code_mutants.OF_CODE}
OF_CHILDREN = {mutant.__name__ for mutant in child_mutants.OF_CHILDREN}
OF_SESSIONS = {mutant.__name__ for mutant in fn_mutants.OF_FUNCTIONS}
OF_LIMITS = {mutant.__name__ for mutant in limit_mutants.OF_LIMITS}
OF_GATHERING = {mutant.__name__ for mutant in gather_mutants.OF_GATHERING}
OF_THROTTLES = {mutant.__name__ for mutant in throttle_mutants.OF_THROTTLES}
OF_PERMITTED = {mutant.__name__ for mutant in throttle_mutants.OF_PERMITTED}
OF_LOCKS = {mutant.__name__ for mutant in lock_mutants.OF_LOCKS}
OF_OVERLAP = {mutant.__name__ for mutant in overlap_mutants.OF_OVERLAP}
OF_PARTS = {mutant.__name__ for mutant in part_mutants.OF_PARTS}
OF_DAGS = {mutant.__name__ for mutant in dag_mutants.OF_DAGS}
OF_DEPLOYS = {mutant.__name__ for mutant in version_mutants.OF_DEPLOYS}
OF_LEASES = {mutant.__name__ for mutant in zombies.OF_LEASES}
OF_TASK_MUTANTS = {mutant.__name__ for mutant in task_mutants.OF_TASKS}
OF_OUTPUTS = {mutant.__name__ for mutant in task_mutants.OF_OUTPUTS}
OF_ASKED_MUTANTS = {mutant.__name__ for mutant in asked_mutants.OF_ASKED}
OF_STREAM_MUTANTS = {mutant.__name__ for mutant in stream_mutants.OF_STREAMS}
OF_HANDED_MUTANTS = {mutant.__name__ for mutant in handed_mutants.OF_HANDED}
OF_BATCH_MUTANTS = {mutant.__name__ for mutant in batch_mutants.OF_BATCHES}
OF_LANE_MUTANTS = {mutant.__name__ for mutant in lane_mutants.OF_LANES}
OF_RACE = {"event_after_log", "event_after_waits"}
OF_UNDOING = {mutant.__name__ for mutant in undo_mutants.OF_UNDOING}

_FIRST_SEEDS = (
    (OF_CHILDREN, FAMILIES),
    (OF_PARTS, PARTS_FROM),
    (OF_HANDED_MUTANTS, HANDED_FROM),
    (OF_SHOWN, SHOWN_FROM),
    (OF_LIMITS, LIMITED_FROM),
    (OF_GATHERING, GATHERED_FROM),
    (OF_THROTTLES, THROTTLED_FROM),
    (OF_PERMITTED, PERMITTED_FROM),
    (OF_LOCKS, LOCKED_FROM),
    (OF_SESSIONS, DURABLE_FROM),
    (OF_TASK_MUTANTS, TASKS_FROM),
    (OF_OUTPUTS, OUTPUTS_FROM),
    (OF_ASKED_MUTANTS, ASKED_FROM),
    (OF_STREAM_MUTANTS, STREAMS_FROM),
    (OF_DEPLOYS, DEPLOYS_FROM),
    (OF_LEASES, ZOMBIES_FROM),
    (OF_OVERLAP, OVERLAPS_FROM),
    (OF_RACE, RACES_FROM),
    (OF_LANE_MUTANTS, LANES_FROM),
    (OF_BATCH_MUTANTS, BATCHES_FROM),
)


def seeds_for(mutant: str) -> Iterator[int]:
    """The seeds of the schedules that can show the mutant, in the order in which to try them."""
    first = next((first for names, first in _FIRST_SEEDS if mutant in names), 0)
    near = first + NEAR.get(mutant, 0)
    seeds = chain(range(near, first + MOST_SCHEDULES), range(first, near))
    return (seed for seed in seeds if _can_show(seed, mutant))


def _can_show(seed: int, mutant: str) -> bool:
    """Whether this schedule has what the mutant gets wrong."""
    if mutant in OF_CODE:
        return any(act == "break" for act, _ in program_of(seed).deploys)
    if mutant in OF_UNDOING:
        program = program_of(seed)
        return program.is_saga and (program.is_dag or mutant != "undone_as_written")
    if mutant in OF_DAGS:
        return program_of(seed).is_dag
    if mutant in {"started_after_end", "lane_left_open"}:
        return any(operation in {"cancel", "terminate"} for operation, _ in program_of(seed).calls)
    return program_of(seed).forks or mutant not in OF_FORKS | OF_LANE_MUTANTS

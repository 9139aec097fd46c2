"""Where each mutant of the engine is looked for: in the schedules that can show it, first where it was caught last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from tests.sim import (
    answered_mutants,
    asked_mutants,
    backlog_mutants,
    batch_mutants,
    child_mutants,
    code_mutants,
    cost_mutants,
    count_mutants,
    dag_mutants,
    erased_mutants,
    fn_mutants,
    fork_mutants,
    gather_mutants,
    handed_mutants,
    lane_mutants,
    limit_mutants,
    lock_mutants,
    mutants,
    overlap_mutants,
    pace_mutants,
    part_mutants,
    pause_mutants,
    released_mutants,
    repeated_mutants,
    retried_mutants,
    several_mutants,
    shared_mutants,
    snag_mutants,
    stream_mutants,
    task_mutants,
    throttle_mutants,
    turn_mutants,
    undo_mutants,
    version_mutants,
    zombies,
)
from tests.sim.schedule import (
    ANSWERED_FROM,
    ASKED_FROM,
    BACKED_UP_FROM,
    BATCHES_FROM,
    BEATEN_FROM,
    BROADCAST_FROM,
    CALLED_FROM,
    COSTLY_FROM,
    CROWDED_FROM,
    DEPLOYS_FROM,
    DISBANDED_FROM,
    DOUBLED_FROM,
    DURABLE_FROM,
    ERASED_FROM,
    FAMILIES,
    FIRST_FROM,
    GATHERED_FROM,
    HANDED_FROM,
    HELD_FROM,
    LANES_FROM,
    LIMITED_FROM,
    LOCKED_FROM,
    OUTPUTS_FROM,
    OVERLAPS_FROM,
    OVERTAKEN_FROM,
    PACED_FROM,
    PARTS_FROM,
    PATCHED_FROM,
    PAUSED_FROM,
    PERMITTED_FROM,
    RACED_FROM,
    RACES_FROM,
    RELEASED_FROM,
    REPEATED_FROM,
    RESULTED_FROM,
    RETRIED_FROM,
    SEVERAL_FROM,
    SHARED_FROM,
    SHOWN_FROM,
    STOPPED_FROM,
    STREAMS_FROM,
    TASKS_FROM,
    THROTTLED_FROM,
    program_of,
    run_schedule,
)

Mutant: TypeAlias = Callable[[], AbstractContextManager[None]]

MOST_SCHEDULES = 10_000  # of one mutant; the rarest is caught about once in 6,000
FEW_SCHEDULES = 100  # within which each is caught, counted from where it was caught last
NEAR = {  # where a rare or costly one was caught last: looked at first, then all the others
    "another_run_each_try": 260,
    "answer_of_an_earlier_attempt": 9,
    "arrivals_reordered": 174,
    "arrived_by_page": 183,
    "batch_keyed_anew": 726,
    "batches_without_end": 133,
    "beat_forgotten": 32,
    "beginnings_wait": 9,
    "begun_after_one": 57,
    "begun_by_its_copy": 1_136,
    "begun_by_nobody": 843,
    "begun_once": 137,
    "cached_by_name": 6,
    "cancel_untold": 8,
    "cancelled_tasks_run_on": 45,
    "children_of_tasks_run_on": 644,
    "children_of_tasks_untold": 317,
    "claim_granted_untold": 33,
    "claim_kept_by_failure": 56,
    "claim_kept_by_tasks": 9,
    "claim_taken_for_dead": 44,
    "closed_but_nested": 455,
    "closure_of_a_stale_session": 87,
    "committed_after_cancel": 2_556,
    "condition_unseen_in_replay": 27,
    "deploy_untold": 243,
    "each_page_for_itself": 285,
    "early_answer_lost_with_its_worker": 233,
    "early_timer_lost": 37,
    "end_given_twice": 21,
    "end_unseen": 53,
    "event_after_waits": 65,
    "events_forgotten_by_continue_as": 289,
    "everything_waits": 11,
    "first_permit_kept": 15,
    "found_by_two": 160,
    "full_lane_asks": 731,
    "gathering_rests": 241,
    "granted_left_to_the_dead": 26,
    "guests_choose_again": 1_713,
    "handed_on_twice": 386,
    "handed_over_one_by_one": 13,
    "handed_over_open": 19,
    "handlers_end_untold": 10,
    "in_strides": 35,
    "inside_unseen": 17,
    "join_by_two": 1_283,
    "kept_on_another_way": 23,
    "knows_only_its_own": 57,
    "lane_effects_once": 108,
    "lane_judged_by_old_news": 47,
    "lane_left_open": 1_235,
    "lane_overwritten": 137,
    "lane_retried_blindly": 108,
    "late_children_run_on": 502,
    "late_goes_on_too": 364,
    "late_waits_kept": 6_075,
    "late_writes_kept": 55,
    "later_permit_kept": 15,
    "lease_not_asked": 30,
    "left_running": 13,
    "let_go_between_tries": 11,
    "line_not_disbanded": 8,
    "lives_share_slots": 29,
    "locks_of_functions_kept": 15,
    "long_steps_wait": 25,
    "losers_run_on": 91,
    "merged_as_told": 12,
    "moved_left_alive": 307,
    "never_caught_up": 12,
    "next_in_line_once": 92,
    "next_told_once": 26,
    "no_by": 333,
    "numbered_by_the_clock": 103,
    "older_than_its_needs": 57,
    "one_answer_for_all": 14,
    "one_fewer_at_once": 9,
    "opened_once": 26,
    "output_of_another": 18,
    "page_asked_before_writing": 353,
    "page_counted_twice": 102,
    "page_not_reported": 105,
    "part_pushes_nothing": 37,
    "paused_in_line": 232,
    "permit_granted_untold": 30,
    "permit_taken_blindly": 27,
    "place_taken_for_ones_own": 59,
    "query_of_the_past": 27,
    "ready_before_arrival": 57,
    "refusal_forgotten": 42,
    "refusal_untold": 2,
    "refused_and_kept": 19,
    "refused_update_without_time": 1_100,
    "released_by_success": 12,
    "run_as_old_as_its_call": 18,
    "session_of_an_update_kept": 28,
    "session_of_another_life": 1_680,
    "session_of_the_deleted": 109,
    "shown_as_it_begins": 113,
    "shown_unread": 420,
    "skipped_by_any": 183,
    "slot_of_another_taken_for_its_own": 359,
    "spare_again": 70,
    "spare_for_nothing": 13,
    "started_after_end": 444,
    "status_overwritten": 294,
    "steps_without_writes": 76,
    "taken_late_and_kept": 20,
    "terminal_overwritten": 23,
    "timer_of_one_slot": 92,
    "timer_of_tasks_overtaken": 8,
    "timer_of_the_deleted": 80,
    "timer_sticks_to_its_word": 3_301,
    "told_once": 12,
    "told_one_too_late": 948,
    "told_over_though_taken": 442,
    "told_to_any_wait": 23,
    "turn_given_back_by_each": 10,
    "turn_given_back_first": 43,
    "turn_of_a_copy_lost": 28,
    "turn_of_a_late_copy_lost": 68,
    "turn_taken_together": 996,
    "two_names_for_a_wake": 186,
    "undone_though_it_failed_itself": 69,
    "undone_while_running": 84,
    "update_not_marked": 5,
    "update_put_off_by_nobody": 8,
    "updates_reordered": 52,
    "validator_not_asked": 25,
    "votes_are_counted": 65,
    "wait_after_read": 181,
    "waiting_counted_as_work": 342,
    "waits_for_ever": 65,
    "wakes_sent_twice": 1_316,
    "woken_before_the_next_pause": 234,
    "writes_of_tasks_left_out": 7,
    "written_after_moving": 155,
    "written_after_the_end": 1_055,
    "written_without_a_record": 10,
}
RARE = frozenset({"never_caught_up", "written_after_moving"})  # caught slowly: a command of their own

_FAMILIES: tuple[tuple[tuple[Mutant, ...], int], ...] = (  # each with its first seed; of two, the later one's counts
    (code_mutants.OF_CODE, 0),
    (count_mutants.OF_COUNTS, 0),
    (dag_mutants.OF_DAGS, 0),
    (fork_mutants.OF_FORKS, 0),
    (mutants.OF_ALL, 0),
    (turn_mutants.OF_TURNS, 0),
    (turn_mutants.OF_COPIES, FIRST_FROM + 11_000_000),
    (undo_mutants.OF_UNDOING, 0),
    (answered_mutants.OF_ANSWERED, ANSWERED_FROM),
    (answered_mutants.OF_BEATEN, BEATEN_FROM),
    (asked_mutants.OF_ASKED, ASKED_FROM),
    (backlog_mutants.OF_BACKLOGS, BACKED_UP_FROM),
    (batch_mutants.OF_BATCHES, BATCHES_FROM),
    (child_mutants.OF_CHILDREN, FAMILIES),
    (cost_mutants.OF_COSTS, COSTLY_FROM),
    (erased_mutants.OF_DELETIONS, ERASED_FROM),
    (fn_mutants.OF_FUNCTIONS, DURABLE_FROM),
    (fork_mutants.OF_SHOWN, SHOWN_FROM),
    (gather_mutants.OF_GATHERING, GATHERED_FROM),
    (gather_mutants.OF_STALLS, CALLED_FROM),
    (handed_mutants.OF_HANDED, HANDED_FROM),
    (lane_mutants.OF_LANES, LANES_FROM),
    (limit_mutants.OF_LIMITS, LIMITED_FROM),
    (lock_mutants.OF_LOCKS, LOCKED_FROM),
    (mutants.OF_RACE, RACES_FROM),
    (overlap_mutants.OF_OVERLAP, OVERLAPS_FROM),
    (pace_mutants.OF_PACES, PACED_FROM),
    (part_mutants.OF_PARTS, PARTS_FROM),
    (pause_mutants.OF_PAUSES, PAUSED_FROM),
    (released_mutants.OF_RELEASED, RELEASED_FROM),
    (repeated_mutants.OF_REPEATS, REPEATED_FROM),
    (retried_mutants.OF_RESULTED, RESULTED_FROM),
    (retried_mutants.OF_RETRIED, RETRIED_FROM),
    (several_mutants.OF_SEVERAL, SEVERAL_FROM),
    (shared_mutants.OF_SHARED, SHARED_FROM),
    (snag_mutants.OF_RACED, RACED_FROM),
    (snag_mutants.OF_BROADCAST, BROADCAST_FROM),
    (snag_mutants.OF_CROWDED, CROWDED_FROM),
    (snag_mutants.OF_DOUBLED, DOUBLED_FROM),
    (snag_mutants.OF_PATCHED, PATCHED_FROM),
    (snag_mutants.OF_OVERTAKEN, OVERTAKEN_FROM),
    (snag_mutants.OF_STOPPED, STOPPED_FROM),
    (stream_mutants.OF_STREAMS, STREAMS_FROM),
    (task_mutants.OF_OUTPUTS, OUTPUTS_FROM),
    (task_mutants.OF_TASKS, TASKS_FROM),
    (throttle_mutants.OF_DISBANDED, DISBANDED_FROM),
    (throttle_mutants.OF_PERMITTED, PERMITTED_FROM),
    (throttle_mutants.OF_THROTTLES, THROTTLED_FROM),
    (version_mutants.OF_DEPLOYS, DEPLOYS_FROM),
    (zombies.OF_LEASES, HELD_FROM),
)
MUTANTS = {mutant.__name__: mutant for family, _ in _FAMILIES for mutant in family}
_FIRST_SEEDS = {mutant: first for family, first in _FAMILIES for mutant in family}


def number_of(name: str, seed: int) -> int:
    """What stands in NEAR for a mutant that is caught at this seed."""
    return seed - _FIRST_SEEDS[MUTANTS[name]]


@dataclass(frozen=True)
class Caught:
    """A mutant, and the seed whose schedule breaks a law with it, after so many schedules."""

    seed: int
    why: str
    schedules: int


def caught(name: str) -> Caught | None:
    with MUTANTS[name]():
        for schedules, seed in enumerate(seeds_for(name), 1):
            if why := run_schedule(seed):
                return Caught(seed, why, schedules)
    return None


def seeds_for(name: str) -> Iterator[int]:
    """The seeds of the schedules that can show the mutant, in the order in which to try them."""
    mutant = MUTANTS[name]
    first = _FIRST_SEEDS[mutant]
    near = first + NEAR.get(name, 0)
    seeds = chain(range(near, first + MOST_SCHEDULES), range(first, near))
    return (seed for seed in seeds if _can_show(seed, mutant))


def _can_show(seed: int, mutant: Mutant) -> bool:
    """Whether this schedule has what the mutant gets wrong."""
    program = program_of(seed)
    if mutant in code_mutants.OF_CODE:
        return any(act == "break" for act, _ in program.deploys)
    if mutant in undo_mutants.OF_UNDOING:
        return program.is_saga and (program.is_dag or mutant is not undo_mutants.undone_as_written)
    if mutant in dag_mutants.OF_DAGS:
        return program.is_dag
    if mutant in (child_mutants.started_after_end, lane_mutants.lane_left_open):
        return any(operation in {"cancel", "terminate"} for operation, _ in program.calls)
    needs_fork = mutant in fork_mutants.OF_FORKS or mutant in lane_mutants.OF_LANES
    return program.forks or not needs_fork

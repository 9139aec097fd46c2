"""Random schedules hold every law; the mutants of the engine are caught; and a seed is a story that can be replayed."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path
from unittest import mock

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.records import Next
from stepwell.engine.stored import codec
from stepwell.engine.stored.codec import next_json
from stepwell.engine.table import UNMET
from tests.lifecycle import fork_schedules, schedules
from tests.sim.hunting import FEW_SCHEDULES, MOST_SCHEDULES, MUTANTS, RARE, caught, number_of
from tests.sim.rows import MET, counted, expected, met
from tests.sim.schedule import (
    ASKED_FROM,
    BACKED_UP_FROM,
    BATCHES_FROM,
    CALLED_FROM,
    COSTLY_FROM,
    DEPLOYS_FROM,
    DURABLE_FROM,
    EACH_SNAGGED,
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
    PARTS_FROM,
    PAUSED_FROM,
    PERMITTED_FROM,
    RACES_FROM,
    RELEASED_FROM,
    REPEATED_FROM,
    SEVERAL_FROM,
    SHARED_FROM,
    SHOWN_FROM,
    SNAGGED_FROM,
    STREAMS_FROM,
    TASKS_FROM,
    THROTTLED_FROM,
    ZOMBIES_FROM,
    program_of,
    run_schedule,
)
from tests.sim.seed_mutants import OF_SEEDS, PLAYED_WITH, SLOW

# A worker that dies leaves the coroutines of branches behind that nobody will await, here as in production.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SCHEDULES = 270
PARTS = 3  # what breaks is told when its part is over
OF_ASKED = 36  # schedules of durable functions whose callers ask for updates and queries
OF_CALLS = 198  # schedules of clients who call anything in any phase
OF_DELETIONS = 60  # schedules of runs that are deleted, and whose ids are used again
OF_FAMILIES = 50  # schedules of runs that start others
OF_WAITS_HANDED = 60  # schedules of waits that are handed on, or kept alive
OF_OLD_DAGS = 180  # schedules among which are those of DAGs whose forks were recorded by an earlier release
OF_REDRIVES = 40  # schedules of runs that are redriven: chains, and forks
OF_RACES = 180  # schedules of one event against one wait
OF_FIRST = 40  # schedules of waits for the first of several things
OF_FUNCTIONS = 24  # schedules of durable functions
OF_COSTS = 40  # schedules of forks of runs that have cost too much
OF_FORKS_SHOWN = 40  # schedules of one fork whose branches wait
OF_OVERLAPS = 40  # schedules of steps that take time
OF_SEVERAL = 50  # schedules of several approvals in one wait, and of events that stay for each arm
OF_SHARED = 24  # schedules of durable functions that share a table and locks
OF_STREAMS = 36  # schedules of durable functions whose steps emit live output
OF_OUTPUTS = 40  # schedules of tasks whose outputs stand once
OF_TASKS = 36  # schedules of durable functions with tasks
OF_TASKS_PERMITTED = 24  # schedules of durable functions whose tasks' steps are throttled
OF_RUNS_LIMITED = 40  # schedules of runs under limits
OF_STARTS = 60  # schedules of starts that become one run
OF_PAUSED = 50  # schedules of runs and workflows that are paused for a while
OF_RUNS_THROTTLED = 40  # schedules of runs whose steps are throttled
OF_RUNS_LOCKED = 20  # schedules of runs that want the same locks
OF_VERSIONS = 40  # schedules of old and new code
OF_BACKLOGS = 84  # schedules of short invocations, behind a queue that is backed up
OF_REPEATED = 119  # schedules of calls that are made again, where else nothing comes twice
OF_BATCHES = 60  # schedules of chains, and of all families, whose records are gathered
OF_LANES = 54  # schedules of all families, with lanes
OF_WAITS = 80  # schedules of waits for several things
OF_HELD = 120  # schedules of such workers in chains of steps, of which a few need the look at the lease
# schedules of actors that are held up at a call, by program
OF_SNAGGED = (60, 20, 30, 30, 60, 20, 50, 25, 12, 15, 36, 12, 20)
OF_ZOMBIES = 30  # schedules of workers that outlive their leases
CLEANED_UP_LATE = OVERLAPS_FROM + 30_000_088  # whoever cancels a function dies, and its time to clean up passes
DELETED_TWICE = 12_049_850_017  # the second deletion erases what a late branch wrote, and then the first one looks
TWO_LIVES = 12_093_001_317  # a deleted run has started a run for good, and so has another run that has its id
PEOPLE_FIRST = 11_049_800_705  # a function waits for an approval of 100 s beside a sleep of 11 s
BRANCH_OF_CHILDREN = DURABLE_FROM + 22_001_244  # child runs with different time limits are a branch that wins
FORETOLD = ASKED_FROM + 40_000_235  # a function's task waits for code before it waits for its event
PARKED_BY_ONE = CALLED_FROM + 2611  # one copy of a message parks a branch for code, another has run its step
LATE_COPIES = OVERLAPS_FROM + 1160  # copies of a shared message undo beside the branch that was handed over
CANCELLED_TOGETHER = PERMITTED_FROM + 48_700_081  # a group cancels its tasks in the order of a set
LOG_BEFORE_LANE = COSTLY_FROM + 48_410_919  # a branch's own log is there before the lane in which it began
MEETING = (  # rows of the reception table that others meet rarely
    *(CALLED_FROM + number for number in (330, 381, 488, 591, 653, 798, 827, 1876, 3689, 3700, 4189)),
    *(
        TASKS_FROM + 148,
        RELEASED_FROM + 141,
        RELEASED_FROM + 295,
        DEPLOYS_FROM + 115,
        DURABLE_FROM + 111,
        ERASED_FROM + 189,
    ),
    *(PERMITTED_FROM + number for number in (130, 313, 385, 417)),
    RELEASED_FROM + 342,
    440,
)
LEASES_THAT_MATTER = (ZOMBIES_FROM + 101, ZOMBIES_FROM + 217)  # a run stands still there where nobody asks for a lease
ROWS_NEED = 50_000  # decisions
LATE_FOR_FUNCTIONS = (DURABLE_FROM + 85, TASKS_FROM + 263, TASKS_FROM + 353, CALLED_FROM + 855)
CALM = (309, 866, 1_316, 1_725, 1_916, 1_922, 2_808, 3_257, 3_438)  # nobody dies, and nothing comes twice
TOLD = 16  # seeds whose stories are told twice

LINE = re.compile(r" *\d+\.\ds  (    \+ .+|        \w+: \w.*|[\w.]+: .+)")


@pytest.fixture(scope="module", autouse=True)
def left_behind() -> Iterator[None]:
    """No other module's test is to meet them."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def marks_of(mutant: Callable[[], AbstractContextManager[None]]) -> list[pytest.MarkDecorator]:
    """Those of a mutant that has its own schedules."""
    return [pytest.mark.slow] if mutant in SLOW else []


def broken(seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed under which a law does not hold."""
    return next(((seed, why) for seed in seeds if (why := run_schedule(seed))), None)


def lawful(seeds: Iterable[int]) -> tuple[int, str] | None:
    """The same, of the engine as it is: what it decides is counted."""
    with counted():
        return broken(seeds)


def story(seed: int) -> list[str]:
    lines: list[str] = []
    lines.append(run_schedule(seed, lines.append) or "every law held")
    return lines


@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_under_every_schedule(part: int) -> None:
    """A seed that fails here is told by `python -m tests.sim --seed N`."""
    size = SCHEDULES // PARTS
    assert lawful(range(part * size, (part + 1) * size)) is None


@pytest.mark.parametrize("part", range(2))
def test_every_law_holds_for_runs_that_start_others(part: int) -> None:
    """Parents, children and theirs in one world."""
    size = OF_FAMILIES // 2
    assert lawful(range(FAMILIES + part * size, FAMILIES + (part + 1) * size)) is None


def test_every_law_holds_where_forks_were_recorded_without_what_their_branches_need() -> None:
    """As a release did that left this to the definition."""

    def stored(following: Next) -> dict[str, Json]:
        return {name: value for name, value in next_json(following).items() if name != "needs"}

    dags = [seed for seed in range(OF_OLD_DAGS) if program_of(seed).is_dag]
    assert len(dags) > OF_OLD_DAGS // 10
    with mock.patch.object(codec, "next_json", stored):
        assert lawful(dags) is None


def test_each_wake_is_sent_once_where_nobody_dies_and_nothing_comes_twice() -> None:
    assert lawful(CALM) is None


def test_every_law_holds_while_old_and_new_code_share_a_store() -> None:
    """Law 10: a deploy in the middle of runs of every family, and at times its rollback, ends them as ever."""
    assert lawful(range(DEPLOYS_FROM, DEPLOYS_FROM + OF_VERSIONS)) is None


def test_every_law_holds_for_waits_for_several_things() -> None:
    """Documents, votes, all of several events, and events that stay for others."""
    assert lawful(range(PARTS_FROM, PARTS_FROM + OF_WAITS)) is None


def test_every_law_holds_for_waits_for_the_first_of_several_things() -> None:
    """An answer, an event, documents, a delay: what agents wait for."""
    assert lawful(range(FIRST_FROM, FIRST_FROM + OF_FIRST)) is None


def test_every_law_holds_for_waits_that_are_handed_on_or_kept_alive() -> None:
    """Delegations of approvals, and heartbeats of callbacks."""
    assert lawful(range(HANDED_FROM, HANDED_FROM + OF_WAITS_HANDED)) is None


def test_every_law_holds_for_several_approvals_in_one_wait() -> None:
    """Answered by name or without one, handed on, and beside events that stay for each arm."""
    assert lawful(range(SEVERAL_FROM, SEVERAL_FROM + OF_SEVERAL)) is None


def test_a_header_says_what_branches_wait_for_under_every_schedule() -> None:
    assert lawful(range(SHOWN_FROM, SHOWN_FROM + OF_FORKS_SHOWN)) is None


def test_an_event_ends_its_wait_once_whether_it_comes_before_while_or_after_that_is_registered() -> None:
    assert lawful(range(RACES_FROM, RACES_FROM + OF_RACES)) is None


def test_every_law_holds_where_workers_outlive_their_leases() -> None:
    """Whoever has lost its message appends nothing, so that nobody else drops what is then nobody's."""
    assert lawful(chain(range(ZOMBIES_FROM, ZOMBIES_FROM + OF_ZOMBIES), LEASES_THAT_MATTER)) is None
    assert lawful(range(HELD_FROM, HELD_FROM + OF_HELD)) is None


@pytest.mark.parametrize("family", range(len(OF_SNAGGED)))
def test_every_law_holds_where_somebody_is_held_up_at_a_call_and_dies(family: int) -> None:
    """What it has read is old by then: a permit, a pause, a wait, a start, a function's next operation."""
    first = SNAGGED_FROM + family * EACH_SNAGGED
    assert lawful(range(first, first + OF_SNAGGED[family])) is None


def test_no_branch_waits_for_anothers_step_but_by_the_bound_of_its_fork() -> None:
    """Law 13: while k branches are left of those that may run k at a time, k are under way."""
    assert lawful(range(OVERLAPS_FROM, OVERLAPS_FROM + OF_OVERLAPS)) is None


def test_a_late_copy_of_a_shared_message_is_a_copy_of_the_wakes_that_it_holds() -> None:
    """A branch has one name, in the message that it shared and in its own: who goes on with it repeats one wake."""
    assert lawful([LATE_COPIES]) is None


def test_a_step_that_one_copy_of_a_message_ran_and_another_found_gone_runs_again_once_its_code_is_back() -> None:
    """The record of the copy that parked was first, so what the other's try came to is dropped."""
    assert lawful([PARKED_BY_ONE]) is None


def test_a_deletion_that_was_repeated_leaves_the_branches_to_the_one_that_knew_them() -> None:
    """It has read nothing of them: what they wait for would stay behind."""
    assert lawful([DELETED_TWICE, TWO_LIVES]) is None


def test_a_header_shows_an_approval_before_a_sleep_that_is_due_earlier() -> None:
    """Among what a function's tasks wait for, people come first."""
    assert lawful([PEOPLE_FIRST]) is None


def test_a_function_whose_time_to_clean_up_is_over_leaves_no_branch_though_its_canceller_died() -> None:
    """The fork where it stood is closed by whoever ends it."""
    assert lawful([CLEANED_UP_LATE]) is None


def test_a_run_that_has_cost_too_much_is_paused_before_its_branches_begin_and_goes_on_once_unpaused() -> None:
    """Whoever dies amid the pause or its end."""
    assert lawful(range(COSTLY_FROM, COSTLY_FROM + OF_COSTS)) is None


def test_every_law_holds_where_branches_are_written_together() -> None:
    """Lanes, in programs of every family. Some forks have none: their join needs only some, or they are bounded."""
    assert lawful(range(LANES_FROM, LANES_FROM + OF_LANES)) is None


def test_every_law_holds_where_steps_are_written_together() -> None:
    """`durability: batch`: a crash repeats the steps of the open batch, and nothing that others see comes early."""
    assert lawful(range(BATCHES_FROM, BATCHES_FROM + OF_BATCHES)) is None


def test_every_law_holds_where_invocations_are_short_and_messages_wait_until_the_sweeper_sends_more() -> None:
    """No step is cut off, and a message that came in vain leaves a run to the worker that has it."""
    assert lawful(range(BACKED_UP_FROM, BACKED_UP_FROM + OF_BACKLOGS)) is None


def test_a_step_begins_once_where_nobody_dies_though_each_call_is_made_again() -> None:
    """Calls and events come twice at once, and once more when they were answered, amid the next step."""
    assert lawful(range(REPEATED_FROM, REPEATED_FROM + OF_REPEATED)) is None


def test_every_law_holds_for_runs_that_want_the_same_locks() -> None:
    """One holder at a time, everybody has his turn, and nothing is held for good."""
    assert lawful(range(LOCKED_FROM, LOCKED_FROM + OF_RUNS_LOCKED)) is None


def test_every_law_holds_for_runs_under_limits() -> None:
    """Never one too many under way, none is left behind, and no permit is lost."""
    assert lawful(range(LIMITED_FROM, LIMITED_FROM + OF_RUNS_LIMITED)) is None


def test_every_law_holds_for_throttled_steps() -> None:
    """Never one step too many, none is left behind, and no permit is lost."""
    assert lawful(range(THROTTLED_FROM, THROTTLED_FROM + OF_RUNS_THROTTLED)) is None


def test_every_durable_function_does_what_its_program_does_when_it_is_run_plainly() -> None:
    """Steps, waits, combinators, children, clean-ups, new lives; on workers that keep sessions or not, and deploys."""
    assert lawful(range(DURABLE_FROM, DURABLE_FROM + OF_FUNCTIONS)) is None


def test_every_function_with_tasks_does_what_plain_asyncio_makes_of_the_same_ends() -> None:
    """Gathers, groups, races, limits, pools, tasks that are left behind; under kills, copies, cancels and deploys."""
    assert lawful(range(TASKS_FROM, TASKS_FROM + OF_TASKS)) is None


def test_an_output_that_stands_once_is_found_by_each_replay_of_any_version() -> None:
    """In the log of its operation; old code leaves what refers to it to newer code."""
    assert lawful(range(OUTPUTS_FROM, OUTPUTS_FROM + OF_OUTPUTS)) is None


def test_every_law_holds_where_the_steps_of_tasks_are_throttled() -> None:
    """`ctx.limit` within tasks: never one step too many, none is left behind, and no permit is lost."""
    assert lawful(range(PERMITTED_FROM, PERMITTED_FROM + OF_TASKS_PERMITTED)) is None


def test_every_function_with_callers_makes_each_update_once_and_tells_what_its_log_has() -> None:
    """Updates that are early, late, twice or invalid, handlers that await, conditions, queries, starts with events."""
    assert lawful(range(ASKED_FROM, ASKED_FROM + OF_ASKED)) is None


def test_every_transaction_is_written_once_and_tasks_take_their_turns_with_a_lock() -> None:
    """Runs that share a table and locks: what the table has is what the logs have, and nobody is beside a holder."""
    assert lawful(range(SHARED_FROM, SHARED_FROM + OF_SHARED)) is None


def test_no_piece_of_live_output_hides_from_a_reader_and_tasks_await_child_runs() -> None:
    """Whatever the clocks say, whoever writes beside others, dies, or is told of an error that was none."""
    assert lawful(range(STREAMS_FROM, STREAMS_FROM + OF_STREAMS)) is None


def test_no_start_that_becomes_part_of_a_run_is_lost_or_in_two_of_them() -> None:
    """Starts of few keys, close together, some of them repeated, by callers who die."""
    assert lawful(range(GATHERED_FROM, GATHERED_FROM + OF_STARTS)) is None


def test_whatever_is_paused_in_any_phase_goes_on_once_the_pause_is_over() -> None:
    """Pauses of a run, of its children, of all workflows; also of runs that gather starts, and are due meanwhile."""
    assert lawful(range(PAUSED_FROM, PAUSED_FROM + OF_PAUSED)) is None


@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_whatever_clients_call_in_any_phase(part: int) -> None:
    """Too early, twice, of what cannot be, after the end; from processes that stall in the midst of a call."""
    size = OF_CALLS // PARTS
    assert lawful(range(CALLED_FROM + part * size, CALLED_FROM + (part + 1) * size)) is None


def test_every_law_holds_where_runs_are_deleted_and_their_ids_are_used_again() -> None:
    """Of a deleted run nothing is left, whoever worked for it; the next run with its id has nothing of it."""
    assert lawful(range(ERASED_FROM, ERASED_FROM + OF_DELETIONS)) is None


def test_every_law_holds_where_a_message_meets_what_hardly_any_meets() -> None:
    """Of two that race each other, each may be the first."""
    assert lawful(MEETING) is None


def test_runs_that_are_redriven_meet_the_rows_of_that() -> None:
    """tests/lifecycle has more of these schedules, and the mutants that they catch."""
    with counted():
        for seed in range(OF_REDRIVES):
            assert (schedules.run_schedule(seed), fork_schedules.run_schedule(seed)) == (None, None)


def test_a_function_that_has_ended_meets_the_rows_of_that() -> None:
    """One schedule in hundreds has a wake, or the end of an operation, that comes between its end and its reader."""
    assert lawful(LATE_FOR_FUNCTIONS) is None


def test_the_schedules_meet_every_row_of_the_reception_table() -> None:
    """After the schedules of all the tests above. A row that no message meets says so in the table."""
    if sum(MET.values()) < ROWS_NEED:
        pytest.skip("needs the tests above")
    assert expected() - met() == set()
    assert met() & UNMET == set()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in RARE else name for name in sorted(MUTANTS)]
)
def test_an_engine_without_one_of_its_laws_is_caught(name: str) -> None:
    found = caught(name)
    assert found is not None, f"{MOST_SCHEDULES} schedules, and nobody noticed {name}"
    assert re.match(
        r"law \d|children|header|locks|causal times|timers|at_most_once|concurrency|dependencies|skips"
        r"|the engine met|throttle|turns|retriers|batches|keys|costs|starts|compensation|functions|tasks|callers"
        r"|streams|transactions|replay|ids|messages|budgets|\w+ attempt",
        found.why,
    ), found.why
    assert run_schedule(found.seed) is None  # it is the mutant that was caught, and it left nothing behind
    assert found.schedules <= FEW_SCHEDULES or name in RARE, (
        f'write "{name}": {number_of(name, found.seed)} into NEAR, for this took {found.schedules} schedules; '
        "python -m tests.sim --near finds all of these"
    )


@pytest.mark.parametrize(
    ("mutant", "seed"),
    [
        pytest.param(mutant, seed, id=mutant.__name__, marks=marks_of(mutant))
        for mutant, seeds in OF_SEEDS
        for seed in seeds
    ],
)
def test_a_fault_of_one_schedule_in_thousands_stays_mended(
    mutant: Callable[[], AbstractContextManager[None]], seed: int
) -> None:
    with ExitStack() as played:
        for as_before in PLAYED_WITH.get(seed, ()):
            played.enter_context(as_before())
        with mutant():
            assert run_schedule(seed) is not None
        assert lawful([seed]) is None


def test_the_time_limit_of_a_task_that_waited_for_code_is_shown_as_foretold() -> None:
    """Its wait began later than its function's record says, and the run's header tells of the record."""
    assert lawful([FORETOLD]) is None


def test_tasks_that_a_group_cancels_may_go_on_in_any_order_and_a_lane_may_come_after_its_branches_logs() -> None:
    assert lawful([CANCELLED_TOGETHER, LOG_BEFORE_LANE]) is None


def test_a_branch_of_child_runs_with_different_time_limits_brings_what_each_of_them_did() -> None:
    """They are branches in turn, and no wait for a set of child runs, whose results have names."""
    assert lawful([BRANCH_OF_CHILDREN]) is None


@pytest.mark.parametrize("first", range(0, TOLD, TOLD // 4))
def test_a_seed_tells_the_same_story_each_time(first: int) -> None:
    for seed in range(first, first + TOLD // 4):
        assert story(seed) == story(seed)


def test_a_seed_tells_the_same_story_in_another_process() -> None:
    """Nothing hangs on the order of hashes."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", "3"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 500


def test_telling_a_story_does_not_change_it() -> None:
    for seed in range(TOLD):
        assert run_schedule(seed) == run_schedule(seed, lambda _: None)


def test_different_seeds_tell_different_stories() -> None:
    assert len({tuple(story(seed)) for seed in range(TOLD)}) == TOLD


def test_a_story_can_be_read() -> None:
    """Each line says when, who and what; messages are numbered, and who takes one is named after it."""
    *lines, end = story(17)
    assert end == "every law held"
    assert len(lines) > 20
    for line in lines:
        assert LINE.match(line), line
        assert len(line) < 700
    sent = [found[1] for line in lines if (found := re.search(r"\+ \w+#(\d+) ", line))]
    assert sent == [str(number + 1) for number in range(len(sent))]
    assert any(": takes " in line for line in lines)
    assert any("append(run_sim" in line for line in lines)


def test_a_broken_law_is_named_with_its_number_and_what_happened() -> None:
    with MUTANTS["terminal_overwritten"]():
        found = broken(range(MOST_SCHEDULES))
        assert found is not None
        told = story(found[0])
    assert told[-1] == found[1]
    assert re.match(r"law [26]: .{15,}", found[1])

"""Named limits: how many steps of all workflows hold a permit at once, how fast they get one, and who waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import run_view
from stepwell.definition.graph import Limit, RateLimit
from stepwell.engine.actions import Share
from stepwell.engine.names import iso
from stepwell.errors import Conflict
from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.waits.lines import Board, Lines, place_of
from tests.runtime.kit import NOW_MS, World, fails

FLOW = """
workflow: flow
timeline:
  - {name: charge, run: python:m.charge, throttle: stripe}
  - {name: last, run: python:m.last}
"""
OTHER = FLOW.replace("workflow: flow", "workflow: other").replace("charge", "refund")
BY_KEY = FLOW.replace("throttle: stripe", 'throttle: {limit: stripe, key: "{{ input.customer }}"}')
RETRIED = FLOW.replace("throttle: stripe", "throttle: stripe, retry: {max_retries: 1, initial_delay: 10s, on: [step]}")
EACH = """
workflow: each
nodes:
  spread: {fan_out: all, transitions: [{to: charge, foreach: "{{ input }}"}]}
  charge: {run: python:m.charge, throttle: stripe, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}}
"""


class Dies(Exception):
    """The worker is gone, in the middle of its step."""


def world_with(*definitions: str, most: int | None = 1, rate: RateLimit | None = None) -> World:
    world = World(*definitions)
    world.catalog.limits = {"stripe": Limit(most, rate)}
    return world


def notes_of(world: World, kind: str = "permits:@stripe") -> dict[str, str]:
    return dict(run_now(world.store.notes(kind)))


def dying(call: StepCall) -> Any:
    raise Dies


def under_way(world: World, run_id: str, lease_ms: int = 5 * MINUTE_MS) -> None:
    """The run's step is under way: its worker is at it, and is not heard of again until its message comes back."""
    before = dict(world.steps.of)
    world.steps.of |= {"charge": dying, "refund": dying}
    one = world.queue.receive(ALL_LANES, world.clock.now_ms(), lease_ms)
    assert one is not None
    assert one.message["run_id"] == run_id
    with pytest.raises(Dies):
        run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    world.steps.of = before


def shown(world: World, run_id: str) -> dict[str, Any]:
    return dict(run_view(run_now(world.service.standing(run_id)), world.clock.now_ms()))


def why(world: World, run_id: str) -> dict[str, Any]:
    return dict(explain(run_now(world.service.standing(run_id)), world.clock.now_ms(), None, {}))


def test_a_throttled_step_has_a_permit_while_it_runs_and_gives_it_back() -> None:
    world = world_with(FLOW)
    held: list[dict[str, str]] = []
    world.steps.of["charge"] = lambda call: held.append(notes_of(world)) or {}
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status == "completed"
    assert held == [{"h00": f'["{run_id}|0|0"]'}]
    assert notes_of(world) == {}
    assert [one.attempts for one in world.token(run_id).steps.values()] == [1, 1]


def test_an_approval_of_a_run_whose_step_waits_for_a_permit_is_told_of_which_limit() -> None:
    world = world_with(FLOW, BY_KEY.replace("workflow: flow", "workflow: keyed"))
    under_way(world, world.start())
    under_way(world, world.start("keyed", {"customer": "ana"}))
    waits, keyed = world.start(), world.start("keyed", {"customer": "ana"})
    world.deliver()
    for run_id, limit in ((waits, "stripe"), (keyed, "stripe/ana")):
        with pytest.raises(Conflict) as refused:
            run_now(world.service.approve(run_id, who="bob"))
        assert refused.value.message.endswith(f"; it waits for a permit of the limit {limit}")


def test_an_approval_of_a_fork_whose_branches_all_wait_for_permits_is_told_of_the_limit() -> None:
    world = world_with(FLOW, EACH)
    under_way(world, world.start())
    run_id = world.start("each", [1, 2, 3])
    world.deliver()
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bob"))
    waits = "all its branches that are under way wait, first of them charge for a permit of the limit stripe"
    assert refused.value.message == f"the run does not wait for an approval; {waits}"


def test_steps_of_all_workflows_share_a_limit_and_say_what_they_wait_for() -> None:
    world = world_with(FLOW, OTHER)
    holder = world.start()
    under_way(world, holder)
    first = world.start("other")
    world.pass_time(SECOND_MS)
    second = world.start("other")
    world.deliver()
    for run_id in (first, second):
        view = shown(world, run_id)
        assert (view["status"], view["waiting_for"], view["current_steps"]) == ("waiting", "limit", ["refund"])
    told = why(world, second)
    assert told["why"].endswith("for the limit stripe: 1 at once, 1 before it.")
    assert told["wakers"] == [{"what": "limit", "at": None, "detail": f"the end of a step of {holder}"}]
    assert not told["nothing_can_wake_it"]
    assert "refund" not in {call.node for call in world.steps.calls}
    world.pass_time(10 * MINUTE_MS)  # another worker gets the message of the one that died
    assert [world.header(one).status for one in (holder, first, second)] == ["completed"] * 3
    assert notes_of(world) == {}


def test_a_limit_is_for_each_value_of_a_key() -> None:
    world = world_with(BY_KEY)
    holder = world.start(given={"customer": "ana"})
    under_way(world, holder)
    same, other = world.start(given={"customer": "ana"}), world.start(given={"customer": "leo"})
    world.deliver()
    assert [world.header(one).status for one in (same, other)] == ["waiting", "completed"]


def test_a_key_that_cannot_be_computed_fails_the_step() -> None:
    world = world_with(BY_KEY)
    run_id = world.start(given={"customer": None})
    world.deliver()
    error = world.token(run_id).error
    assert error is not None
    assert (world.header(run_id).status, error.category) == ("failed", "validation")


def test_a_limit_that_is_not_deployed_fails_the_step() -> None:
    world = World(FLOW)
    run_id = world.start()
    world.deliver()
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, error.step) == ("unknown_limit", "charge")


def test_a_retry_holds_no_permit_while_it_waits_and_asks_for_another() -> None:
    world = world_with(RETRIED)
    results = iter([fails("Busy"), {"ok": True}])
    world.steps.of["charge"] = lambda call: next(results)
    run_id = world.start()
    world.deliver()
    assert world.token(run_id).attempt == 1
    assert notes_of(world) == {}
    world.pass_time(11 * SECOND_MS)
    assert world.header(run_id).status == "completed"
    assert world.token(run_id).steps["charge"].attempts == 2
    keys = {call.key for call in world.steps.calls if call.node == "charge"}
    assert len(keys) == 1


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_a_run_that_ends_in_line_leaves_it_and_one_that_holds_a_permit_gives_it_back(end: str) -> None:
    world = world_with(FLOW)
    holder = world.start()
    under_way(world, holder)
    in_line, last = world.start(), world.start()
    world.deliver()
    run_now(getattr(world.service, end)(in_line))
    world.deliver()
    assert len(notes_of(world)) == 2
    run_now(getattr(world.service, end)(holder))
    world.deliver()
    assert world.header(last).status == "completed"
    assert notes_of(world) == {}


def test_branches_of_a_fork_take_turns() -> None:
    world = world_with(EACH, most=2)
    most = [0]

    def count(call: StepCall) -> dict[str, int]:
        most[0] = max(most[0], sum(len(body.split(",")) for name, body in notes_of(world).items() if name[0] == "h"))
        return {"n": 1}

    world.steps.of["charge"] = count
    run_id = world.start("each", list(range(12)))
    world.pass_time(MINUTE_MS)
    assert world.header(run_id).status == "completed"
    assert most == [1]  # the short steps of one message run one after the other
    assert notes_of(world) == {}


def test_steps_keep_to_the_rate_of_a_limit() -> None:
    """20 a second, within 5 % over a minute, however many wait."""
    world = world_with(FLOW, most=None, rate=RateLimit(20, SECOND_MS))
    ran: list[int] = []
    world.steps.of["charge"] = lambda call: ran.append(world.clock.now_ms()) or {}
    for _ in range(1_300):
        world.start()
    world.pass_time(MINUTE_MS - 1)
    assert 1_140 <= len(ran) <= 1_260
    assert all(later - earlier >= 45 for earlier, later in pairwise(ran))
    world.pass_time(MINUTE_MS)
    assert len(ran) == 1_300
    assert set(notes_of(world, "pace:@stripe")) == {"due"}


def test_steps_whose_turns_came_while_no_worker_ran_keep_to_the_rate_from_then_on() -> None:
    world = world_with(FLOW, most=None, rate=RateLimit(20, SECOND_MS))
    ran: list[int] = []
    world.steps.of["charge"] = lambda call: ran.append(world.clock.now_ms()) or {}
    for _ in range(100):
        world.start()
    world.deliver()
    world.clock.advance(MINUTE_MS)
    world.pass_time(MINUTE_MS)
    assert len(ran) == 100
    assert all(later - earlier >= 45 for earlier, later in pairwise(ran))
    assert set(notes_of(world, "pace:@stripe")) == {"due"}


def test_a_step_whose_turn_comes_later_holds_its_permit_and_says_when() -> None:
    world = world_with(FLOW, most=5, rate=RateLimit(1, MINUTE_MS))
    first, second = world.start(), world.start()
    world.deliver()
    assert [world.header(one).status for one in (first, second)] == ["completed", "waiting"]
    told = why(world, second)
    assert told["wakers"] == [{"what": "timer", "at": iso(NOW_MS + MINUTE_MS), "detail": "its turn under the limit"}]
    world.pass_time(MINUTE_MS)
    assert world.header(second).status == "completed"
    assert notes_of(world) == {}


def test_a_greater_priority_goes_first_and_keys_do_not_wait_for_each_other() -> None:
    world = world_with(FLOW)
    holder = world.start()
    under_way(world, holder)
    order: list[str] = []
    world.steps.of["charge"] = lambda call: order.append(call.run_id) or {}
    low = world.start()
    world.deliver()
    world.pass_time(SECOND_MS)
    high = world.start(priority=5)
    world.deliver()
    world.pass_time(10 * MINUTE_MS)
    assert order == [holder, high, low]


def test_a_key_with_a_long_line_does_not_hold_up_another_key() -> None:
    """Fair between keys: a hundred steps of one customer wait, and the step of another runs at once."""
    world = world_with(BY_KEY)
    holder = world.start(given={"customer": "ana"})
    under_way(world, holder)
    line = [world.start(given={"customer": "ana"}) for _ in range(100)]
    world.deliver()
    other = world.start(given={"customer": "leo"})
    world.deliver()
    assert world.header(other).status == "completed"
    assert {world.header(one).status for one in line} == {"waiting"}
    order: list[str] = []
    world.steps.of["charge"] = lambda call: order.append(call.run_id) or {}
    world.pass_time(10 * MINUTE_MS)
    assert order == [holder, *line]  # and within a key, who asked first goes first


def test_a_lowered_limit_holds_for_runs_under_way() -> None:
    world = world_with(FLOW, most=3)
    runs = [world.start() for _ in range(3)]
    under_way(world, runs[0])
    world.catalog.limits = {"stripe": Limit(1)}
    world.deliver()
    assert [world.header(one).status for one in runs[1:]] == ["waiting", "waiting"]
    world.pass_time(10 * MINUTE_MS)
    assert [world.header(one).status for one in runs] == ["completed"] * 3


def test_a_paused_run_holds_up_nobody_in_its_line_and_asks_again_when_it_goes_on() -> None:
    world = world_with(FLOW)
    holder = world.start()
    under_way(world, holder)
    paused, last = world.start(), world.start()
    world.deliver()
    run_now(world.service.pause(paused))
    world.pass_time(10 * MINUTE_MS)
    assert [world.header(one).status for one in (holder, paused, last)] == ["completed", "paused", "completed"]
    assert notes_of(world) == {}
    run_now(world.service.unpause(paused))
    world.deliver()
    assert world.header(paused).status == "completed"
    assert notes_of(world) == {}


def test_runs_of_a_paused_workflow_hold_up_nobody_in_their_line_and_ask_again_when_it_goes_on() -> None:
    world = world_with(FLOW, OTHER)
    holder = world.start("other")
    under_way(world, holder, MINUTE_MS)
    paused, last = waiting_in(world), world.start("other")
    run_now(world.parts.workflow_pauses.pause("flow", "ana", "an incident"))
    world.pass_time(24 * HOUR_MS)
    assert [world.header(one).status for one in (holder, paused, last)] == ["completed", "paused", "completed"]
    assert notes_of(world) == {}
    run_now(world.parts.workflow_pauses.unpause("flow"))
    world.pass_time(HOUR_MS)
    assert world.header(paused).status == "completed"
    assert notes_of(world) == {}


def test_a_run_that_left_its_line_for_a_pause_takes_its_place_again() -> None:
    world = world_with(FLOW)
    holder = world.start()
    under_way(world, holder, MINUTE_MS)
    paused, second, last = waiting_in(world), waiting_in(world), waiting_in(world)
    run_now(world.service.pause(paused))
    order: list[str] = []

    def charge(call: StepCall) -> dict[str, Any]:
        order.append(call.run_id)
        if call.run_id == second:
            run_now(world.service.unpause(paused))
            world.deliver()
        return {}

    world.steps.of["charge"] = charge
    world.pass_time(10 * MINUTE_MS)
    assert order == [holder, second, paused, last]


def waiting_in(world: World) -> str:
    """A run whose step waits for a permit, and asked for it after those before it."""
    world.clock.set(world.clock.now_ms() + SECOND_MS)
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status == "waiting"
    return run_id


def test_a_copy_that_still_takes_the_run_for_paused_leaves_the_permit_to_the_step_under_way() -> None:
    """It has read the header before the pause was over, and decides once another copy has gone on."""
    world = world_with(FLOW)
    under_way(world, world.start(), MINUTE_MS)
    run_id = waiting_in(world)
    run_now(world.service.pause(run_id))
    behind = run_now(world.service.standing(run_id))
    run_now(world.service.unpause(run_id))
    held: list[dict[str, str]] = []

    def charge(call: StepCall) -> dict[str, Any]:
        if call.run_id == run_id:
            run_now(world.parts.advance.settle(behind, "copy"))
            held.append(notes_of(world))
        return {}

    world.steps.of["charge"] = charge
    world.pass_time(10 * MINUTE_MS)
    assert held == [{"h00": f'["{run_id}|0|0"]'}]
    assert world.header(run_id).status == "completed"
    assert notes_of(world) == {}


def test_a_run_that_is_paused_at_its_step_gives_the_permit_back_when_that_ends() -> None:
    world = world_with(FLOW)
    runs = [world.start()]

    def charge(call: StepCall) -> dict[str, Any]:
        if call.run_id == runs[0]:
            runs.append(waiting_in(world))
            run_now(world.service.pause(runs[0]))
        return {}

    world.steps.of["charge"] = charge
    world.deliver()
    assert [world.header(one).status for one in runs] == ["paused", "completed"]
    assert notes_of(world) == {}


def test_a_paused_branch_in_line_goes_on_with_its_run() -> None:
    world = world_with(EACH, FLOW)
    holder = world.start()
    under_way(world, holder)
    run_id = world.start("each", [1, 2, 3])
    world.deliver()
    run_now(world.service.pause(run_id))
    world.pass_time(10 * MINUTE_MS)
    assert [world.header(one).status for one in (holder, run_id)] == ["completed", "paused"]
    run_now(world.service.unpause(run_id))
    world.pass_time(MINUTE_MS)
    assert world.header(run_id).status == "completed"
    assert notes_of(world) == {}


def test_a_step_that_is_under_way_keeps_its_permit_while_its_run_is_paused() -> None:
    world = world_with(FLOW)
    runs: list[str] = []

    def pauses(call: StepCall) -> dict[str, Any]:
        if not runs:
            runs.append(call.run_id)
            run_now(world.service.pause(call.run_id))
            other = world.start()
            one = world.queue.receive(ALL_LANES, world.clock.now_ms(), 5 * MINUTE_MS)
            assert one is not None
            run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
            assert world.header(other).status == "waiting"
            runs.append(other)
        return {}

    world.steps.of["charge"] = pauses
    world.start()
    world.pass_time(10 * MINUTE_MS)
    assert [world.header(one).status for one in runs] == ["paused", "completed"]
    assert notes_of(world) == {}


def swept(world: World, minutes: int) -> list[str]:
    """Sweeps every minute. Returns what was found."""
    found: list[str] = []
    for _ in range(minutes):
        world.clock.advance(MINUTE_MS)
        found += [one.why for one in run_now(world.sweeper.sweep(5 * MINUTE_MS))]
        world.deliver()
    return found


LONG = FLOW.replace("throttle: stripe", "throttle: stripe, timeout: 1d")


def test_a_step_that_has_its_permit_has_its_own_time_before_a_sweep_wakes_it() -> None:
    """Before, a sweep took it for a wait that was over, and had it run twice at once."""
    world = world_with(LONG)
    run_id = world.start()
    under_way(world, run_id, DAY_MS)
    assert swept(world, 120) == []
    assert world.header(run_id).status == "running"


LATER = LONG.replace("timeline:", "timeline:\n  - {name: ask, wait: {for: approval}}")


def in_line(definition: str) -> tuple[World, list[str]]:
    """Four runs that wait for the permit of a step which takes a day; the sweeper has met them before."""
    world = world_with(LONG, definition.replace("workflow: flow", "workflow: line"))
    holder = world.start()
    under_way(world, holder, DAY_MS)
    runs = [world.start("line") for _ in range(4)]
    world.deliver()
    assert swept(world, 10) == []
    for run_id in runs if definition is LATER else ():
        run_now(world.service.approve(run_id))
    world.deliver()
    assert [world.header(one).waiting_for for one in runs] == ["limit"] * 4
    return world, runs


@pytest.mark.parametrize("definition", [LONG, LATER])
def test_a_sweep_finds_nothing_wrong_with_steps_that_wait_for_a_permit(definition: str) -> None:
    """Before, each was reported every five minutes as waiting for nothing."""
    world, runs = in_line(definition)
    assert swept(world, 120) == []
    assert [world.header(one).status for one in runs] == ["waiting"] * 4


@pytest.mark.parametrize("definition", [LONG, LATER])
def test_steps_that_wait_for_a_limit_that_is_removed_fail_by_the_sweeper(definition: str) -> None:
    world, runs = in_line(definition)
    world.catalog.limits = {}
    assert swept(world, 20) == ["no_progress"] * 4
    errors = [world.token(one).error for one in runs]
    assert [error.type for error in errors if error is not None] == ["unknown_limit"] * 4


@pytest.mark.parametrize("rate", [None, RateLimit(1, MINUTE_MS)])
def test_who_waits_for_a_limit_that_is_changed_to_none_hears_of_it_as_a_permit_is_given_back(
    rate: RateLimit | None,
) -> None:
    """Before, they waited for the sweeper, and who held the permit was shown to hold it once the limit was back."""
    world = world_with(FLOW)
    runs = [world.start() for _ in range(4)]
    under_way(world, runs[0])
    world.deliver()
    assert [world.header(one).waiting_for for one in runs[1:]] == ["limit"] * 3
    world.catalog.limits = {} if rate is None else {"stripe": Limit(None, rate)}
    charged: list[str] = []
    world.steps.of["charge"] = lambda call: charged.append(call.run_id) or {}
    world.pass_time(10 * MINUTE_MS)
    assert [world.header(one).status for one in runs[1:]] == (["failed"] if rate is None else ["completed"]) * 3
    assert sorted(charged) == (runs[:1] if rate is None else runs)
    assert notes_of(world) == {}


def test_who_asks_for_a_limit_that_is_gone_leaves_no_note_of_a_turn_that_it_had() -> None:
    world = world_with(FLOW, most=None, rate=RateLimit(1, HOUR_MS))
    runs = [world.start() for _ in range(2)]
    world.deliver()
    world.catalog.limits = {}
    world.pass_time(2 * HOUR_MS)
    assert world.header(runs[1]).status == "failed"
    assert [name for name in notes_of(world, "pace:@stripe") if name != "due"] == []


def test_a_lost_message_to_the_next_in_line_is_found_by_the_sweeper() -> None:
    world = world_with(FLOW)
    holder = world.start()
    under_way(world, holder)
    waiting = world.start()
    world.deliver()
    run_now(world.service.cancel(holder))
    world.lose_messages()
    assert world.header(waiting).status == "waiting"
    world.clock.set(world.clock.now_ms() + HOUR_MS)
    run_now(world.sweeper.sweep(MINUTE_MS))
    world.deliver()
    assert world.header(waiting).status == "completed"


@pytest.mark.parametrize("kept", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_one_thousand_steps_under_a_limit_of_ten_are_never_eleven_and_all_end(kept: str, tmp_path: Path) -> None:
    world = world_with(FLOW, most=10)
    if kept == "sqlite":
        world.store.inner = SqliteStore(Database(tmp_path / "runs.db", "NORMAL"))
    seen = [0]

    def count(call: StepCall) -> dict[str, Any]:
        seen[0] = max(seen[0], sum(len(body.split(",")) for name, body in notes_of(world).items() if name[0] == "h"))
        return {}

    world.steps.of["charge"] = count
    runs = [world.start() for _ in range(1_000)]
    for run_id in runs[:10]:
        under_way(world, run_id)
    world.deliver()
    waiting = [one for one in runs if world.header(one).status == "waiting"]
    assert len(waiting) == 990
    world.pass_time(10 * MINUTE_MS)
    assert seen == [10]
    assert all(world.header(one).status == "completed" for one in runs)
    assert notes_of(world) == {}


UNDONE = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: pay, run: python:m.pay, throttle: {limit: stripe, key: "{{ input }}"}, compensate: {run: python:m.refund}}
  - {name: last, run: python:m.last}
"""


def test_a_compensation_takes_a_permit_of_its_steps_limit_and_gives_it_back() -> None:
    world = World(UNDONE)
    world.catalog.limits = {"stripe": Limit(1)}
    world.steps.of["last"] = lambda _: fails()
    held: list[str] = []
    world.steps.of["pay.compensate"] = lambda _: held.extend(notes_of(world, "permits:@stripe/ana"))
    runs = [world.start(given="ana") for _ in range(3)]
    world.deliver()
    assert [world.header(one).status for one in runs] == ["compensated"] * 3
    assert [name for name in held if name.startswith("h")] == ["h00"] * 3
    assert notes_of(world, "permits:@stripe/ana") == {}


def test_compensations_that_keep_to_a_rate_come_one_after_the_other() -> None:
    world = World(UNDONE.replace(', key: "{{ input }}"', ""))
    world.catalog.limits = {"stripe": Limit(None, RateLimit(1, 10 * SECOND_MS))}
    world.steps.of["last"] = lambda _: fails()
    at: list[int] = []
    world.steps.of["pay.compensate"] = lambda _: at.append(world.clock.now_ms())
    runs = [world.start() for _ in range(2)]
    world.pass_time(MINUTE_MS)
    assert [world.header(one).status for one in runs] == ["compensated"] * 2
    assert at[1] - at[0] >= 10 * SECOND_MS


def test_a_run_whose_compensation_waits_for_a_permit_can_be_terminated_and_leaves_the_line() -> None:
    world = World(UNDONE.replace(', key: "{{ input }}"', ""))
    world.catalog.limits = {"stripe": Limit(None, RateLimit(1, HOUR_MS))}
    world.steps.of["last"] = lambda _: fails()
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status == "compensating"
    run_now(world.service.terminate(run_id))
    world.deliver()
    assert world.header(run_id).status == "failed"
    assert set(notes_of(world, "pace:@stripe")) == {"due"}


class Waiting:
    """Claimants that all still want their permits. `meanwhile`: what another worker does when the first is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.reminded: list[str] = []
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []

    async def lives(self, who: str) -> bool:
        return True

    async def has_ended(self, who: str) -> bool:
        return False

    async def tell(self, who: str) -> bool:
        self.told.append(who)
        while self.meanwhile:
            await self.meanwhile.pop()()
        return True

    async def remind(self, who: str) -> bool:
        self.reminded.append(who)
        return True


def test_a_holder_is_told_at_once_only_by_who_lets_it_in() -> None:
    """Two messages would have two workers run its step together. Others see to it that it is told if that one died."""
    store, share, members = World().store, Share("@stripe", 1, "queue"), Waiting()
    lines = Lines(store, members)
    run_now(lines.enter(share, "a", place_of("1#a")))
    run_now(lines.enter(share, "b", place_of("2#b")))
    members.meanwhile = [partial(lines.enter, share, one, place_of(f"3#{one}")) for one in ("c", "d")]
    run_now(lines.leave(share, "a"))
    assert (members.told, members.reminded) == (["b"], ["b"])
    assert sorted(dict(run_now(store.notes("permits:@stripe")))) == ["h00", "w3#c", "w3#d"]


def test_a_repeated_call_to_leave_tells_a_holder_at_once() -> None:
    """The first call may have died after it had let the holder in."""
    store, share, members = World().store, Share("@stripe", 1, "queue"), Waiting()
    lines = Lines(store, members)
    run_now(lines.enter(share, "a", place_of("1#a")))
    run_now(lines.enter(share, "b", place_of("2#b")))
    board = run_now(lines.read(share))
    run_now(lines._replace(share, board, "h00", "a", ["b"]))
    run_now(lines.leave(share, "a"))
    assert (members.told, members.reminded) == (["b"], [])


class Gone(Waiting):
    """Of two that were let in, the first has ended, and somebody drops the other's place as that is found."""

    def __init__(self, lines: Callable[[], Lines]) -> None:
        super().__init__()
        self._lines = lines

    async def remind(self, who: str) -> bool:
        await super().remind(who)
        if who == "a":
            await self._lines().drop_place(Share("@stripe", 2, "queue"), place_of("2#b"))
        return who != "a"


def test_a_holder_whose_place_is_dropped_while_another_is_taken_out_is_no_error() -> None:
    """The line is read again then, and has the place no more."""
    store, share = World().store, Share("@stripe", 2, "queue")
    lines = Lines(store, members := Gone(lambda: lines))
    for who in ("1#a", "2#b"):
        run_now(store.put_note("permits:@stripe", place_of(who), "", None))
    run_now(store.put_note("permits:@stripe", "h00", '["a","b"]', None))
    run_now(lines.seen_to(share, but="c"))
    assert members.reminded == ["a", "b"]
    assert dict(run_now(store.notes("permits:@stripe"))) == {"h00": '["b"]'}


class Overtaken(Lines):
    """The lines of a worker that finds, each time it lets another in, that somebody has done so a moment before."""

    async def _grant(self, share: Share, shard: str, board: Board, who: str) -> bool:
        await self._write(share.name, shard, board, (who, *board.holders[shard]))
        return await super()._grant(share, shard, board, who)


def test_a_holder_that_another_let_in_meanwhile_is_not_told_by_who_leaves() -> None:
    store, one, two, members = World().store, Share("@stripe", 1, "queue"), Share("@stripe", 2, "queue"), Waiting()
    for who in ("1#a", "2#b", "3#c"):
        run_now(Lines(store, members).enter(one, who[2:], place_of(who)))
    run_now(Overtaken(store, members).leave(two, "a"))
    assert (members.told, members.reminded) == (["b"], ["c"])

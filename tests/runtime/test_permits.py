"""Limits of a workflow: how many runs are under way, who waits and in which order, and how fast they begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import run_view
from stepwell.engine.actions import Drop, Pace
from stepwell.engine.inputs import OverLimit
from stepwell.engine.records import Kind
from stepwell.errors import Conflict, InvalidInput, PortError
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import UNLIMITED
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import DeadLetter
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.starting import Signal
from stepwell.runtime.waits.claimants import Runs
from stepwell.runtime.waits.paces import Paces
from tests.runtime.kit import NOW_MS, World, fails, graph_of

HOLD = """
workflow: flow
concurrency: {limit: 2}
timeline:
  - {name: hold, wait: {for: approval}}
  - {name: last, run: python:m.last}
"""
BY_KEY = HOLD.replace("{limit: 2}", '{limit: 1, key: "{{ input.customer }}"}')
NEWEST = HOLD.replace("{limit: 2}", "{limit: 2, on_limit: cancel_newest}")
OLDEST = HOLD.replace("{limit: 2}", "{limit: 1, on_limit: cancel_oldest}")
PACED = """
workflow: flow
rate_limit: {limit: 20, per: 1s}
timeline: [{name: last, run: python:m.last}]
"""
BURST = PACED.replace("per: 1s", "per: 1m, burst: 5")
NESTED = """
workflow: flow
concurrency: {limit: 1}
timeline:
  - {name: again, run: "workflow:flow", input: {depth: 1}}
"""


def statuses(world: World, *runs: str) -> list[str]:
    return [world.header(one).status.value for one in runs]


def started(world: World, count: int, **options: Any) -> list[str]:
    runs = [world.start(**options) for _ in range(count)]
    world.deliver()
    return runs


def dies(*_: object) -> None:
    raise PortError("it died here")


def end(world: World, run_id: str) -> None:
    run_now(world.service.approve(run_id))
    world.deliver()


def reason(world: World, run_id: str) -> str | None:
    return run_view(run_now(world.service.standing(run_id)), world.clock.now_ms())["pending_reason"]


def notes_of(world: World, kind: str) -> dict[str, str]:
    return dict(run_now(world.store.notes(kind)))


def test_runs_over_the_limit_stay_pending_and_begin_when_one_ends() -> None:
    world = World(HOLD)
    first, second, third, fourth = started(world, 4)
    assert statuses(world, first, second, third, fourth) == ["waiting", "waiting", "pending", "pending"]
    end(world, second)
    assert statuses(world, first, second, third, fourth) == ["waiting", "completed", "waiting", "pending"]
    end(world, first)
    end(world, third)
    end(world, fourth)
    assert statuses(world, first, third, fourth) == ["completed"] * 3
    assert notes_of(world, "permits:flow") == {}


def test_an_approval_of_a_run_that_has_not_begun_is_told_which_limit_holds_it() -> None:
    world = World(HOLD.replace("{limit: 2}", "{limit: 1}"))
    run_ids = started(world, 2)
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_ids[1], who="bob"))
    assert refused.value.message == "the run does not wait for an approval; it waits for a permit of the limit flow"
    assert refused.value.hint == "answer once it asks: stepwell explain RUN says what it waits for"


def test_an_approval_of_a_run_whose_turn_has_not_come_is_told_when_that_is() -> None:
    world = World(PACED.replace("limit: 20", "limit: 1").replace("1s", "1m"))
    run_ids = started(world, 2)
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_ids[1], who="bob"))
    assert refused.value.message.endswith(
        "; it waits for its turn under the rate limit of flow, which comes at 2023-11-14T22:14:20.000Z"
    )


def test_a_pending_run_says_what_it_waits_for_and_its_place() -> None:
    world = World(HOLD)
    first, second, third, fourth = started(world, 4)
    assert reason(world, third) == "concurrency limit of flow: at most 2 under way, it is the next"
    assert reason(world, fourth) == "concurrency limit of flow: at most 2 under way, 1 before it"
    told = explain(run_now(world.service.standing(fourth)), world.clock.now_ms(), None, {})
    assert not told["nothing_can_wake_it"]
    assert told["wakers"] == [{"what": "limit", "at": None, "detail": f"the end of {first} or {second}"}]


def test_each_key_has_a_limit_of_its_own() -> None:
    world = World(BY_KEY)
    runs = [world.start(given={"customer": name}) for name in ("ana", "leo", "ana")]
    world.deliver()
    assert statuses(world, *runs) == ["waiting", "waiting", "pending"]
    end(world, runs[1])
    assert statuses(world, runs[2]) == ["pending"]
    end(world, runs[0])
    assert statuses(world, runs[2]) == ["waiting"]


def test_a_key_with_a_long_line_does_not_hold_up_another_key() -> None:
    """Fair between keys: a hundred runs of one customer wait, and the run of another begins at once."""
    world = World(BY_KEY)
    line = [world.start(given={"customer": "ana"}) for _ in range(100)]
    world.deliver()
    other = world.start(given={"customer": "leo"})
    world.deliver()
    assert statuses(world, line[0], line[1], line[99], other) == ["waiting", "pending", "pending", "waiting"]


@pytest.mark.parametrize("limit", ["concurrency: {limit: 1", "rate_limit: {limit: 1, per: 1m"])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"order": {"customer": "ana"}}, "`NAME.key` cannot be computed: there is no key 'customer', in "),
        ({"customer": None}, "the key of `NAME` is None"),
        ({"customer": "a" * 513}, "the key of `NAME` has 513 characters"),
    ],
)
def test_a_start_whose_key_cannot_be_computed_is_refused_and_nothing_is_written(
    limit: str, given: Any, why: str
) -> None:
    world = World(BY_KEY.replace("concurrency: {limit: 1", limit))
    world.start(given={"customer": "ana"}, key="once")
    before = dict(world.store.writes)
    ways: list[dict[str, Any]] = [{}, {"key": "k"}, {"run_id": "mine"}, {"create_only": True}]
    for options in (*ways, {"run_id": "mine", "event": Signal("paid")}):
        with pytest.raises(InvalidInput) as refused:
            world.start(given=given, **options)
        assert refused.value.code == "bad_key"
        assert refused.value.message.startswith(why.replace("NAME", limit.partition(":")[0]))
    assert dict(world.store.writes) == before
    world.deliver()
    assert len(run_now(world.service.runs(RunQuery())).headers) == 1


def test_a_start_that_is_repeated_is_answered_by_its_run_whatever_the_key_is_now() -> None:
    world = World(BY_KEY)
    first = world.start(given={"customer": "ana"}, key="once")
    world.catalog.replace([graph_of(BY_KEY.replace("customer", "buyer"))])
    assert world.start(given={"customer": "ana"}, key="once") == first


@pytest.mark.parametrize(
    ("gathers", "key", "given"),
    [
        ("debounce: {period: 1s", "input.customer", {}),
        ("batch: {max_size: 2, max_delay: 1s", "input.items[0].customer", 5),
    ],
)
def test_a_start_that_is_gathered_is_refused_for_the_key_too(gathers: str, key: str, given: Any) -> None:
    world = World(f"{gathers}}}\n{BY_KEY.replace('input.customer', key)}")
    with pytest.raises(InvalidInput) as refused:
        world.start(given=given)
    assert (refused.value.code, dict(world.store.writes)) == ("bad_key", {})
    assert world.start(given={"customer": "ana"})


def test_a_fork_with_an_input_that_lacks_the_key_is_refused() -> None:
    world = World(BY_KEY)
    old = world.header(world.start(given={"customer": "ana"}))
    with pytest.raises(InvalidInput, match="there is no key 'customer'") as refused:
        run_now(world.service.forker.fork(old, RunFork(0, input=({},))))
    assert refused.value.code == "bad_key"


def test_a_redriven_run_whose_new_version_has_another_key_fails_and_no_other() -> None:
    world = World(BY_KEY)
    world.steps.of["last"] = lambda _: fails()
    (run,) = started(world, 1, given={"customer": "ana"})
    end(world, run)
    world.catalog.replace([graph_of(BY_KEY.replace("customer", "buyer"))])
    lame, other = run_now(world.service.redrive(run)).header.run_id, world.start(given={"buyer": "ana"})
    world.deliver()
    assert statuses(world, lame, other) == ["failed", "waiting"]
    error = world.token(lame).error
    assert error is not None
    assert (error.type, error.category) == ("bad_expression", "validation")
    assert error.message.startswith("`concurrency.key` cannot be computed: there is no key 'buyer', in ")


def test_a_greater_priority_goes_first_and_then_the_older_run() -> None:
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    holder = started(world, 1)[0]
    low = started(world, 1)[0]
    world.pass_time(SECOND_MS)
    high, also_high = started(world, 1, priority=5)[0], None
    world.pass_time(SECOND_MS)
    also_high = started(world, 1, priority=5)[0]
    order: list[str] = []
    for run_id in (holder, high, also_high, low):
        assert statuses(world, run_id) == ["waiting"], order
        end(world, run_id)
        order.append(run_id)


@pytest.mark.parametrize(("older_ms", "is_first"), [(2 * HOUR_MS - MINUTE_MS, False), (2 * HOUR_MS + MINUTE_MS, True)])
def test_a_run_grows_older_by_an_hour_for_each_priority_so_that_none_waits_for_ever(
    older_ms: int, *, is_first: bool
) -> None:
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    holder, low = started(world, 2)
    world.pass_time(older_ms)
    (high,) = started(world, 1, priority=2)
    end(world, holder)
    order = (low, high) if is_first else (high, low)
    assert statuses(world, *order) == ["waiting", "pending"]


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_run_that_is_ended_from_outside_gives_its_permit_or_its_place_back(how: str) -> None:
    world = World(HOLD)
    runs = started(world, 4)
    for run_id in (runs[2], runs[0]):  # one that waits, one that is under way
        run_now(getattr(world.service, how)(run_id))
        world.deliver()
    assert statuses(world, runs[1], runs[3]) == ["waiting", "waiting"]
    end(world, runs[1])
    end(world, runs[3])
    assert notes_of(world, "permits:flow") == {}


def test_cancel_newest_cancels_the_run_that_comes_over_the_limit() -> None:
    world = World(NEWEST)
    runs = started(world, 3)
    assert statuses(world, *runs) == ["waiting", "waiting", "cancelled"]
    last = world.token(runs[2]).last
    assert last is not None
    assert last.kind is Kind.ENDED
    assert last.reason == "2 runs are under way under the limit of flow"
    end(world, runs[0])
    assert statuses(world, *started(world, 1)) == ["waiting"]


def test_a_late_no_to_a_run_that_has_begun_meanwhile_is_dropped() -> None:
    """Two workers had its wake: the one saw the limit reached, the other began the run."""
    world = World(NEWEST)
    run_id = started(world, 1)[0]
    at = run_now(world.service.standing(run_id))
    answer = run_now(world.parts.worker._door.put(at, OverLimit("full"), "wake:0:-1"))
    assert isinstance(answer.action, Drop)
    assert statuses(world, run_id) == ["waiting"]


def test_cancel_oldest_gives_the_newest_run_the_place_of_the_oldest() -> None:
    world = World(OLDEST)
    first = started(world, 1)[0]
    second, third = started(world, 2)
    assert statuses(world, first, second, third) == ["cancelled", "cancelled", "waiting"]
    end(world, third)
    assert notes_of(world, "permits:flow") == {}


@pytest.mark.parametrize("limit", [1, 2, 25])
def test_cancel_oldest_goes_by_the_age_of_the_runs_and_not_by_which_of_them_a_worker_takes_first(limit: int) -> None:
    """Messages come in any order, and the holders of a large limit stand in several notes."""
    world = World(OLDEST.replace("limit: 1", f"limit: {limit}"))
    runs = []
    for _ in range(limit + 2):
        world.clock.set(world.clock.now_ms() + 1)
        runs.append(world.start())
    for run_id in reversed(runs):
        at = run_now(world.service.standing(run_id))
        run_now(world.parts.worker.handle(at.wake(), UNLIMITED))
    world.deliver()
    assert statuses(world, *runs) == ["cancelled"] * 2 + ["waiting"] * limit
    assert world.header(runs[0]).status == "cancelled"
    told = run_now(world.service.standing(runs[0])).token.last
    assert told is not None
    assert str(told.reason).startswith("a newer run, ")


def test_a_run_below_one_that_has_the_permit_begins_under_it() -> None:
    """Else the one would wait for the other for ever."""
    world = World(
        NESTED.replace("workflow:flow", "workflow:inner"), NESTED.replace("workflow: flow", "workflow: inner")
    )
    run_id = world.start()
    world.deliver()
    assert statuses(world, run_id) != ["pending"]
    inner = [one for one in world.store.inner._runs if one != run_id]
    assert len(inner) > 2
    assert "pending" not in statuses(world, *inner)


def test_a_limit_above_twenty_is_kept_in_several_notes() -> None:
    world = World(HOLD.replace("limit: 2", "limit: 45"))
    runs = started(world, 50)
    assert statuses(world, *runs).count("pending") == 5
    assert sorted(name for name in notes_of(world, "permits:flow") if name.startswith("h")) == ["h00", "h01", "h02"]
    for run_id in runs:
        end(world, run_id)
    assert notes_of(world, "permits:flow") == {}


def test_a_timeout_ends_a_run_that_waits_for_its_permit() -> None:
    world = World(HOLD.replace("concurrency", "timeout: 1h\nconcurrency"))
    runs = started(world, 3)
    world.pass_time(HOUR_MS)
    assert statuses(world, *runs) == ["timed_out"] * 3
    assert notes_of(world, "permits:flow") == {}


def test_an_idle_run_asks_for_its_permit_when_it_is_started() -> None:
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    idle = world.start(create_only=True)
    first = started(world, 1)[0]
    assert statuses(world, idle, first) == ["idle", "waiting"]
    run_now(world.service.start_idle(idle))
    world.deliver()
    assert statuses(world, idle) == ["pending"]
    end(world, first)
    assert statuses(world, idle) == ["waiting"]


def test_the_sweeper_leaves_a_run_that_waits_and_wakes_one_that_nobody_told() -> None:
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    first, second = started(world, 2)
    world.pass_time(HOUR_MS)
    assert run_now(world.sweeper.sweep(MINUTE_MS)) == ()
    run_now(world.service.terminate(first))
    world.lose_messages()  # with the one that wakes the second
    world.pass_time(3 * HOUR_MS)
    assert [one.run_id for one in run_now(world.sweeper.sweep(MINUTE_MS))] == [second]
    world.deliver()
    assert statuses(world, second) == ["waiting"]


def test_a_run_that_gets_into_line_as_the_last_permit_is_returned_begins() -> None:
    """
    second   reads: full ───────────────────── its place ── reads again: free
    first                 ends, nobody waits
    """
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    first = started(world, 1)[0]
    second = world.start()
    world.store.before["put_note"] = lambda *_: end(world, first)
    world.deliver()
    assert statuses(world, first, second) == ["completed", "waiting"]


def test_a_permit_of_a_run_that_has_ended_is_taken_by_the_next_one() -> None:
    """A late worker of a cancelled run may have taken it."""
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    gone = started(world, 1)[0]
    end(world, gone)
    run_now(world.store.put_note("permits:flow", "h00", f'["{gone}"]', None))
    assert statuses(world, *started(world, 1)) == ["waiting"]


def test_a_run_that_found_its_permit_by_itself_is_not_woken() -> None:
    """That wake would have another name than its worker's, and could run its next step twice."""
    world = World(HOLD)
    run_id = started(world, 1)[0]
    world.lose_messages()
    assert run_now(Runs(world.parts.ports, Logbook(world.parts.ports, world.catalog)).tell(run_id))
    assert world.lose_messages() == 0


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_run_that_is_let_in_as_it_ends_keeps_no_permit(refusals: int) -> None:
    """Its log has ended, it has left the line, and its header does not say so yet. `refusals`: of another's writes."""
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    first, second = started(world, 2)
    notes = world.store.inner
    put, drop, left = notes.put_note, notes.drop_note, [refusals]

    async def late(kind: str, name: str, body: str, *more: Any, **named: Any) -> bool:
        if second in body:
            notes.put_note = put
            world.store.before["change_status"] = dies
            with pytest.raises(PortError):
                run_now(world.service.cancel(second))
            notes.drop_note = refused
        return bool(await put(kind, name, body, *more, **named))

    async def refused(kind: str, name: str, *body: str) -> bool:
        if body and second in body[0] and left[0]:
            left[0] -= 1
            return False
        return bool(await drop(kind, name, *body))

    notes.put_note = late
    end(world, first)
    assert (world.token(second).ended, left) == (True, [0])
    assert notes_of(world, "permits:flow") == {}


def test_a_run_that_is_let_in_as_it_ends_keeps_no_permit_though_who_let_it_in_died() -> None:
    """Its end found no permit to give back, and who waits looks at nobody before it is told."""
    world = World(HOLD.replace("limit: 2", "limit: 1"))
    first, second, third = started(world, 3)
    notes = world.store.inner
    put = notes.put_note

    async def late(kind: str, name: str, body: str, *more: Any, **named: Any) -> bool:
        if second not in body:
            return bool(await put(kind, name, body, *more, **named))
        notes.put_note = put
        run_now(world.service.cancel(second))
        await put(kind, name, body, *more, **named)
        raise PortError("it died here")

    notes.put_note = late
    run_now(world.service.approve(first))
    with pytest.raises(PortError):
        world.deliver()
    assert notes_of(world, "permits:flow")["h00"] == f'["{second}"]'
    world.pass_time(MINUTE_MS)  # until its message is there again
    assert notes_of(world, "permits:flow") == {"h00": f'["{third}"]'}
    assert world.header(third).status == "waiting"


@pytest.mark.parametrize("is_dead_letter", [False, True])
def test_a_permit_taken_after_its_runs_end_is_given_back_though_its_worker_died(is_dead_letter: bool) -> None:
    """Nobody else would: the run's end had given back what there was, and who waits looks at the oldest holder."""
    world = World(HOLD)
    oldest, gone = started(world, 1)[0], world.start()
    notes, wake = world.store.inner, run_now(world.service.standing(gone)).wake()
    put = notes.put_note

    async def late(*note: Any, **named: Any) -> bool:
        notes.put_note = put
        run_now(world.service.cancel(gone))
        await put(*note, **named)
        raise PortError("it died here")

    notes.put_note = late
    with pytest.raises(PortError):
        world.deliver()
    assert notes_of(world, "permits:flow") == {"h00": f'["{oldest}","{gone}"]'}
    if is_dead_letter:
        world.lose_messages()
        run_now(world.parts.coordinator.handle(DeadLetter(wake)))
    else:
        world.pass_time(MINUTE_MS)  # until its message is there again
    assert notes_of(world, "permits:flow") == {"h00": f'["{oldest}"]'}


def test_a_rate_of_twenty_a_second_is_held_over_a_minute() -> None:
    world = World(PACED)
    begun: list[int] = []
    world.steps.of["last"] = lambda _: begun.append(world.clock.now_ms())
    for _ in range(1_500):
        world.start()
    world.pass_time(MINUTE_MS)
    in_minute = [at_ms for at_ms in begun if at_ms < NOW_MS + MINUTE_MS]
    assert abs(len(in_minute) - 1_200) <= 60
    for second in range(60):
        within = [at_ms for at_ms in begun if 0 <= at_ms - NOW_MS - second * SECOND_MS < SECOND_MS]
        assert abs(len(within) - 20) <= 1
    world.pass_time(MINUTE_MS)
    assert len(begun) == 1_500
    assert list(notes_of(world, "pace:flow")) == ["due"]


def test_runs_whose_turns_came_while_no_worker_ran_keep_to_the_rate_from_then_on() -> None:
    world = World(PACED)
    begun: list[int] = []
    world.steps.of["last"] = lambda _: begun.append(world.clock.now_ms())
    for _ in range(200):
        world.start()
    world.pass_time(SECOND_MS)
    world.clock.advance(MINUTE_MS)  # all other turns come meanwhile
    world.pass_time(MINUTE_MS)
    assert len(begun) == 200
    assert max(sum(0 <= later - one < SECOND_MS for later in begun) for one in begun) <= 21
    assert list(notes_of(world, "pace:flow")) == ["due"]


def test_one_that_always_comes_late_goes_on_though_others_take_each_turn_that_is_free() -> None:
    """With each turn that it misses it may be later."""
    paces, pace, now_ms, missed = Paces(World(PACED).store), Pace("flow", MINUTE_MS, 1), NOW_MS, -1
    while missed < 10:
        for number in range(3):
            run_now(paces.turn(pace, f"run_{now_ms}_{number}", now_ms))
        at_ms = run_now(paces.turn(pace, "late", now_ms))
        if at_ms <= now_ms:
            break
        missed, now_ms = missed + 1, at_ms + MINUTE_MS
    assert missed == 2  # by more than 5 s, then by more than 20 s; a minute is less than 80 s


def test_a_run_that_waited_for_others_as_well_has_not_missed_its_turn() -> None:
    world = World(HOLD.replace("{limit: 2}", "{limit: 1}\nrate_limit: {limit: 1, per: 1m}"))
    first, second, third = started(world, 3)
    world.pass_time(HOUR_MS)
    end(world, first)
    end(world, second)  # the turn of both was an hour ago, or nearly
    assert statuses(world, first, second, third) == ["completed", "completed", "waiting"]


def test_a_burst_begins_at_once_and_the_rest_evenly() -> None:
    world = World(BURST)
    begun: list[int] = []
    world.steps.of["last"] = lambda _: begun.append((world.clock.now_ms() - NOW_MS) // SECOND_MS)
    for _ in range(8):
        world.start()
    world.pass_time(MINUTE_MS)
    assert begun == [0, 0, 0, 0, 0, 3, 6, 9]


def test_a_run_that_waits_for_its_turn_says_when_it_starts_and_a_cancelled_one_leaves_nothing() -> None:
    world = World(PACED.replace("limit: 20", "limit: 1").replace("1s", "1m"))
    _, second = started(world, 2)
    assert reason(world, second) == "rate limit of flow: starts at 2023-11-14T22:14:20.000Z"
    run_now(world.service.cancel(second))
    world.deliver()
    assert list(notes_of(world, "pace:flow")) == ["due"]


HOURLY = PACED.replace("limit: 20", "limit: 1").replace("1s", "1h")


def turn_of(world: World, run_id: str) -> float:
    """In how many hours it begins."""
    world.deliver()
    kept = notes_of(world, "pace:flow").get(f"t#{run_id}")
    return 0 if kept is None else (int(kept) - NOW_MS) / HOUR_MS


@pytest.mark.parametrize("order", [1, -1])
def test_turns_of_cancelled_runs_are_taken_by_those_who_ask_next(order: int) -> None:
    """Before, a new run began after as many turns as there had ever been, though nobody had them."""
    world = World(HOURLY)
    runs = started(world, 8)
    for run_id in runs[2:5][::order]:
        run_now(world.service.cancel(run_id))
    run_now(world.service.terminate(runs[6]))
    world.deliver()
    assert [turn_of(world, one) for one in started(world, 5)] == [2, 3, 4, 6, 8]
    assert turn_of(world, runs[7]) == 7


def test_a_turn_that_passed_while_it_was_free_is_nobodys() -> None:
    world = World(HOURLY)
    runs = started(world, 4)
    for run_id in runs[1:]:
        run_now(world.service.cancel(run_id))
    world.deliver()
    world.clock.advance(2 * HOUR_MS)
    assert [turn_of(world, one) for one in started(world, 2)] == [0, 3]


def test_a_greater_rate_holds_for_all_who_ask_from_then_on() -> None:
    """Before, a new run waited for as long as the runs before it did, at their rate."""
    world = World(HOURLY)
    old = started(world, 4)
    world.catalog.replace([graph_of(HOURLY.replace("1h", "1m"))])
    new = started(world, 2)
    assert [round(60 * turn_of(world, one)) for one in new] == [4, 5]
    assert [turn_of(world, one) for one in old[1:]] == [1, 2, 3]


def test_a_turn_is_kept_by_a_run_that_is_woken_again() -> None:
    world = World(PACED.replace("limit: 20", "limit: 1").replace("1s", "1m"))
    runs = started(world, 3)
    for _ in range(5):
        run_now(world.sweeper.sweep(0))
        world.deliver()
    world.pass_time(2 * MINUTE_MS)
    assert statuses(world, *runs) == ["completed"] * 3


def test_a_sweep_finds_a_permit_behind_living_holders_whose_run_has_ended() -> None:
    """The sweeper wakes who waits, and writes nothing: that run takes the permit over."""
    world = World(HOLD)
    gone = started(world, 1)[0]
    end(world, gone)
    living = started(world, 1)[0]
    run_now(world.store.put_note("permits:flow", "h00", f'["{living}","{gone}"]', f'["{living}"]'))
    waiting = started(world, 1)[0]
    assert statuses(world, living, waiting) == ["waiting", "pending"]
    world.pass_time(HOUR_MS)
    before = notes_of(world, "permits:flow")
    assert [one.run_id for one in run_now(world.sweeper.sweep(MINUTE_MS))] == [waiting]
    assert notes_of(world, "permits:flow") == before
    world.deliver()
    assert statuses(world, living, waiting) == ["waiting", "waiting"]


@pytest.mark.parametrize("kept", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_one_thousand_runs_under_a_limit_of_ten_are_never_eleven_and_all_end(kept: str, tmp_path: Path) -> None:
    world = World(HOLD.replace("limit: 2", "limit: 10").replace("wait: {for: approval}", "sleep: 1s"))
    if kept == "sqlite":
        world.store.inner = SqliteStore(Database(tmp_path / "runs.db", "NORMAL"))
    for number in range(1_000):
        world.start(priority=number % 3)
    left = 1_000
    while left:
        world.deliver()
        counted = {row["status"]: row["count"] for row in run_now(world.store.stats())}
        left = 1_000 - counted.get("completed", 0)
        assert counted.get("waiting", 0) == min(10, left)
        world.pass_time(SECOND_MS)
    assert notes_of(world, "permits:flow") == {}


ONE = HOLD.replace("{limit: 2}", "{limit: 1}")


def test_a_run_that_is_paused_before_it_begins_holds_up_nobody_and_waits_its_turn_afterwards() -> None:
    world = World(ONE)
    first, paused, third, fourth = started(world, 4)
    run_now(world.service.pause(paused))
    end(world, first)
    assert statuses(world, paused, third, fourth) == ["paused", "waiting", "pending"]
    run_now(world.service.unpause(paused))
    world.deliver()
    assert statuses(world, paused, third, fourth) == ["pending", "waiting", "pending"]
    end(world, third)
    assert statuses(world, paused, fourth) == ["waiting", "pending"]
    end(world, paused)
    end(world, fourth)
    assert statuses(world, paused, fourth) == ["completed"] * 2
    assert notes_of(world, "permits:flow") == {}


def test_a_run_that_is_paused_as_it_gets_its_permit_gives_it_back() -> None:
    """Its message is under way: it was let in, and has not begun."""
    world = World(ONE)
    first, paused, third = started(world, 3)
    run_now(world.service.approve(first))
    while world.header(first).status != "completed":
        one = world.queue.receive(ALL_LANES, world.clock.now_ms(), MINUTE_MS)
        assert one is not None
        run_now(dispatch(world.parts, one.lane, one.message, UNLIMITED))
        world.queue.delete(one)
    assert paused in notes_of(world, "permits:flow")["h00"]
    run_now(world.service.pause(paused))
    world.deliver()
    assert statuses(world, paused, third) == ["paused", "waiting"]
    run_now(world.service.unpause(paused))
    world.deliver()
    assert statuses(world, paused, third) == ["pending", "waiting"]
    end(world, third)
    assert statuses(world, paused) == ["waiting"]


def test_a_run_in_line_is_paused_and_unpaused_as_often_as_one_likes() -> None:
    world = World(ONE)
    first, paused = started(world, 2)
    for _ in range(3):
        run_now(world.service.pause(paused))
        end(world, first)
        assert statuses(world, paused) == ["paused"]
        (first,) = started(world, 1)
        assert statuses(world, first) == ["waiting"]
        run_now(world.service.unpause(paused))
        world.deliver()
        assert statuses(world, paused) == ["pending"]
    end(world, first)
    assert statuses(world, paused) == ["waiting"]
    end(world, paused)
    assert notes_of(world, "permits:flow") == {}


def test_a_redriven_run_that_is_paused_in_line_holds_up_nobody_and_waits_its_turn_afterwards() -> None:
    world = World(ONE)
    world.steps.of["last"] = lambda _: fails()
    (failed,) = started(world, 1)
    end(world, failed)
    del world.steps.of["last"]
    (first,) = started(world, 1)
    again = run_now(world.service.redrive(failed)).header.run_id
    world.pass_time(SECOND_MS)
    (third,) = started(world, 1)
    run_now(world.service.pause(again))
    end(world, first)
    assert statuses(world, again, third) == ["paused", "waiting"]
    run_now(world.service.unpause(again))
    world.deliver()
    assert statuses(world, again, third) == ["running", "waiting"]
    end(world, third)
    assert statuses(world, again) == ["completed"]
    assert [call.node for call in world.steps.calls if call.run_id == again] == ["last"]
    assert notes_of(world, "permits:flow") == {}


def test_a_redriven_run_that_is_paused_at_its_first_step_keeps_its_permit_and_begins_it_once() -> None:
    world = World(ONE + "  - {name: more, run: python:m.more}")
    world.steps.of["last"] = lambda _: fails()
    (failed,) = started(world, 1)
    end(world, failed)
    world.steps.of["last"] = lambda call: str(run_now(world.service.pause(call.run_id)))
    again = run_now(world.service.redrive(failed)).header.run_id
    world.deliver()
    (second,) = started(world, 1)
    assert statuses(world, again, second) == ["paused", "pending"]
    run_now(world.service.unpause(again))
    world.deliver()
    assert statuses(world, again, second) == ["completed", "waiting"]
    assert [call.node for call in world.steps.calls if call.run_id == again] == ["last", "more"]


def test_a_run_that_the_pause_of_its_workflow_stops_before_it_begins_keeps_no_permit() -> None:
    world = World(ONE)
    first, second = started(world, 2)
    run_now(world.parts.workflow_pauses.pause("flow", "an incident", "ana"))
    run_now(world.service.cancel(first))
    world.deliver()
    assert statuses(world, second) == ["paused"]
    assert notes_of(world, "permits:flow") == {}
    run_now(world.parts.workflow_pauses.unpause("flow"))
    world.pass_time(MINUTE_MS)
    assert statuses(world, second) == ["waiting"]

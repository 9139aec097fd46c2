"""The restore drill: the table's items of an instant in a new table, no message, no timer; then every run goes on."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from stepwell.engine.records import Status
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Schedule
from stepwell.runtime.ports.headers import RunQuery
from tests.aws.kit import AwsWorld, aws_world
from tests.contract.emulated import items_of, partitions_of, table_of
from tests.lifecycle.test_pause import ABANDONS
from tests.runtime.kit import World, fails

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
FLOWS = (
    "workflow: approve\ntimeline: [{name: ask, wait: {for: approval, timeout: 2h, on_timeout: continue}}]",
    "workflow: hear\ntimeline: [{name: hear, wait: {for: event, name: paid, key: '{{ input.n }}', timeout: 9d}}]",
    "workflow: nap\ntimeline: [{name: nap, sleep: 3h}, {name: work, run: python:m.work}]",
    "workflow: work\ntimeline: [{name: first, run: python:m.first}, {name: last, run: python:m.last}]",
    "workflow: again\ntimeline: [{name: often, run: python:m.often, retry: {max_retries: 3, initial_delay: 2h, "
    "max_delay: 9h}}]",
    "workflow: limited\nconcurrency: {limit: 1}\ntimeline: [{name: ask, wait: {for: approval, timeout: 1h, "
    "on_timeout: continue}}]",
    "workflow: parent\ntimeline: [{name: both, children: [{workflow: nap}, {workflow: approve}], timeout: 20h}]",
    "workflow: timed\ntimeout: 4h\ntimeline: [{name: hear, wait: {for: event, name: never, timeout: 9d}}]",
    """workflow: fork
nodes:
  split: {transitions: [{to: each, foreach: "[1, 2, 3]"}]}
  each: {wait: {for: event, name: paid, key: "b{{ branch.item }}", timeout: 9d}, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}}
""",
    "workflow: locked\nlock: one\ntimeline: [{name: nap, sleep: 1h}]",
)


def begin(world: World) -> list[str]:
    """Runs in every state in which a run can be open."""
    broken = iter(range(2))
    world.steps.of["often"] = lambda call: fails("E", "transient") if next(broken, None) is not None else "done"
    ids = [world.start(name, {"n": "a"}) for name in (
        "approve", "hear", "nap", "work", "again", "parent", "timed", "fork", "limited", "limited", "locked", "locked",
    )]  # fmt: skip
    world.pass_time(MINUTE_MS)
    later_ms = world.clock.now_ms() + 2 * HOUR_MS
    ids += [world.start("work", start_at_ms=later_ms), world.start("work")]  # the last one's wake is in the queue
    return ids


class Drill:
    """A world on emulated AWS, whose table can be put back to an instant."""

    def __init__(self, world: AwsWorld) -> None:
        self.world = world
        self.kept: dict[str, Any] = {}

    def instant(self) -> None:
        self.kept = deepcopy(partitions_of(self.world.table.name))

    def restore(self, name: str) -> None:
        """The items as of the instant, in another table, to which all parts point; messages and schedules are gone."""
        partitions_of(name).update(self.kept)
        self.world.store.inner._table.name = name
        self.lose()

    def lose(self) -> None:
        scheduler = self.world.cloud.connect("scheduler")
        queue = self.world.queue.cloud.connect("scheduler")
        for client in (scheduler, queue):
            for one in client.list_schedules()["Schedules"]:
                client.delete_schedule(Name=one["Name"], GroupName=one["GroupName"])
        while (one := self.world.queue.receive(ALL_LANES, self.world.clock.now_ms() + HOUR_MS, 60_000)) is not None:
            self.world.queue.delete(one)


def recovered(world: World) -> Any:
    """All passes of `recover --all`, each of no time at all."""
    reports, cursor = [], ""
    while True:
        reports.append(run_now(world.parts.recovery.recover_all(lambda: 0, cursor)))
        cursor = reports[-1].next_cursor
        if not cursor:
            return reports


def open_runs(world: World) -> set[str]:
    page = run_now(world.store.list_runs(RunQuery(limit=500)))
    return {f"{one.workflow} {one.status}" for one in page.headers if not one.status.terminal}


def test_every_run_goes_on_after_a_restore() -> None:
    with aws_world(*FLOWS) as world, table_of(world.cloud) as new:
        drill, ids = Drill(world), begin(world)
        drill.instant()
        run_now(world.service.send_event("paid", 1, key="a"))  # all that comes now, nobody knows of later
        world.pass_time(30 * HOUR_MS)
        assert {world.header(one).status for one in ids} >= {Status.COMPLETED, Status.TIMED_OUT}
        drill.restore(new.name)
        assert {"approve waiting", "hear waiting", "nap waiting", "work pending", "parent waiting"} <= open_runs(world)
        reports = recovered(world)
        assert sum(one.rearmed for one in reports) >= len(ids) - 3  # those whose step may be running are left alone
        for key in ("a", "b1", "b2", "b3"):
            run_now(world.service.send_event("paid", 1, key=key))
        for _ in range(60):  # the sweeper comes as it always does
            world.pass_time(30 * MINUTE_MS)
            run_now(world.sweeper.sweep(5 * MINUTE_MS))
        assert open_runs(world) == set()
        assert {world.header(one).status for one in ids} == {Status.COMPLETED, Status.TIMED_OUT}


class Instant:
    """A store that calls back ahead of this call of all."""

    def __init__(self, inner: Any, number: int, tell: Callable[[], None]) -> None:
        self._inner, self._left, self._tell = inner, number, tell

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self._left -= 1
            if not self._left:
                self._tell()
            return await method(*args, **named)

        return call


@pytest.mark.parametrize("number", [30, 90, 150])
def test_every_run_goes_on_from_an_instant_amid_the_work(number: int) -> None:
    """Records are written whose effects are not, runs have headers and no wake, a fork is open and no branch begun."""
    with aws_world(*FLOWS) as world, table_of(world.cloud) as new:
        drill, store = Drill(world), world.store.inner
        world.store.inner = Instant(store, number, drill.instant)
        begin(world)
        world.store.inner = store
        assert drill.kept
        world.pass_time(HOUR_MS)
        drill.restore(new.name)
        recovered(world)
        for key in ("a", "b1", "b2", "b3"):
            run_now(world.service.send_event("paid", 1, key=key))
        for _ in range(60):
            world.pass_time(30 * MINUTE_MS)
            run_now(world.sweeper.sweep(5 * MINUTE_MS))
        assert open_runs(world) == set()


def test_an_event_that_was_taken_after_the_instant_is_taken_again() -> None:
    """It is pending in the restored table, and its message is gone: only a wake of the wait finds it."""
    with aws_world(*FLOWS) as world, table_of(world.cloud) as new:
        drill, run_id = Drill(world), world.start("hear", {"n": "a"})
        world.pass_time(MINUTE_MS)
        run_now(world.service.send_event("paid", 1, key="a"))
        drill.instant()
        world.pass_time(MINUTE_MS)
        assert world.header(run_id).status is Status.COMPLETED
        drill.restore(new.name)
        for _ in range(3):
            world.pass_time(HOUR_MS)
            run_now(world.sweeper.sweep(5 * MINUTE_MS))
        assert world.header(run_id).status is Status.WAITING  # the sweeper alone does not
        recovered(world)
        world.pass_time(MINUTE_MS)
        assert world.header(run_id).status is Status.COMPLETED


def test_timers_are_exact_again_and_not_as_late_as_the_sweeper() -> None:
    with aws_world(*FLOWS) as world, table_of(world.cloud) as new:
        drill, run_id = Drill(world), world.start("nap")
        world.pass_time(MINUTE_MS)
        drill.instant()
        drill.restore(new.name)
        recovered(world)
        world.pass_time(3 * HOUR_MS)
        assert world.header(run_id).status is Status.COMPLETED


def test_a_branch_that_its_join_abandoned_goes_on_after_a_restore() -> None:
    with aws_world(ABANDONS) as world, table_of(world.cloud) as new:
        drill, run_id = Drill(world), world.start()
        world.pass_time(MINUTE_MS)
        assert world.token(run_id).node == "agree"
        drill.instant()
        drill.restore(new.name)
        recovered(world)
        world.pass_time(HOUR_MS)
        assert [call.node for call in world.steps.calls] == ["ship"]


def test_the_runs_of_a_restored_table_are_all_there() -> None:
    with aws_world(*FLOWS) as world, table_of(world.cloud) as new:
        drill = Drill(world)
        begin(world)
        drill.instant()
        before = len(items_of(world.table.name))
        drill.restore(new.name)
        assert len(items_of(new.name)) == before


def test_a_step_that_may_be_running_is_not_begun_a_second_time() -> None:
    """Its worker may live: it is woken once its time is up."""
    world = World(*FLOWS)
    run_id = world.start("work")
    world.steps.of["first"] = lambda call: recovered(world) and "made"
    world.deliver()
    assert [call.node for call in world.steps.calls if call.run_id == run_id] == ["first", "last"]
    assert world.queue.pending() == 0


def test_recover_reports_what_stood_still_and_why() -> None:
    world = World(*FLOWS)
    ids = [world.start("work"), world.start("approve")]
    world.pass_time(6 * MINUTE_MS)
    run_now(world.sweeper.sweep(5 * MINUTE_MS))  # it meets them
    lost = world.start("nap")
    world.pass_time(MINUTE_MS)
    run_now(world.store.watch(lost, world.header(lost).due_ms))
    world.lose_messages()
    world.clock.set(world.clock.now_ms() + 4 * HOUR_MS)
    report = run_now(world.parts.recovery.recover(lambda: 1))
    assert (report.looked, dict(report.found)) == (2, {"overdue": 2})
    assert {run_id for run_id, _ in report.first} == {ids[1], lost}
    world.pass_time(MINUTE_MS)
    assert run_now(world.parts.recovery.recover(lambda: 1)).looked == 0


def test_schedules_of_callers_fire_again() -> None:
    sent: list[str] = []

    class Schedules:
        async def set(self, schedule: Schedule, message: Any) -> None:
            sent.append(schedule.name)

        async def drop(self, name: str) -> None: ...

    world = World(*FLOWS, schedules=Schedules())
    run_now(world.parts.scheduling.create(Schedule("often", "work", "rate(5 minutes)")))
    recovered(world)
    assert sent == ["often", "often"]

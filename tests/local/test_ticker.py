"""The ticker: schedules fire at their times, and after a pause what was missed is made up for as they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.engine.names import iso
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.local.ticker import Ticker
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Schedule
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.schedules import SCHEDULE
from stepwell.runtime.stores.jsontext import encode
from stepwell.testing.backend import ports_of
from stepwell.testing.kit import Stepwell
from tests.local.kit import Dev, until
from tests.runtime.kit import Functions, graph_of

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BEGIN_MS = int(datetime(2030, 3, 1, 12, tzinfo=UTC).timestamp() * 1_000)
STEP = "timeline: [{name: a, run: python:m.a}]"


def flow(trigger: str) -> str:
    return f"workflow: flow\ntriggers: [{trigger}]\n{STEP}"


class Machine:
    """A data folder's process: its clock goes on while it is down."""

    def __init__(self, database: Database, clock: VirtualClock, text: str) -> None:
        store, queue = SqliteStore(database), SqliteQueue(database, clock)
        catalog = Catalog(partial(compile_document, trusted=True), [graph_of(text)])
        self.clock, self.queue = clock, queue
        self.parts: Assembly = assemble(
            ports_of(store, queue, clock), catalog, Functions(),
            compile_expression=compile_expression, new_id=lambda: "1", jitter=lambda: 0.5,
        )  # fmt: skip
        self.ticker = Ticker(self.parts)
        self.tick()

    def tick(self) -> None:
        self.ticker.tick()
        while (one := self.queue.receive(ALL_LANES, self.clock.now_ms(), 60_000)) is not None:
            run_now(dispatch(self.parts, one.lane, one.message, Unlimited(one.deliveries)))
            self.queue.delete(one)

    def run_until(self, until_ms: int) -> None:
        while (due_ms := self.ticker.next_due_ms()) is not None and due_ms <= until_ms:
            self.clock.set(max(due_ms, self.clock.now_ms()))
            self.tick()
        self.clock.set(until_ms)

    def fired(self) -> list[str]:
        """For which times runs were started, in order."""
        page = run_now(self.parts.service.runs(RunQuery(limit=500)))
        return sorted(header.input["scheduled_at"] for header in page.headers)


@contextmanager
def machine(path: Path, clock: VirtualClock, text: str) -> Iterator[Machine]:
    database = Database(path / "stepwell.db", "NORMAL")
    yield Machine(database, clock, text)
    database.close()


def at(*days: int, hour: int = 9) -> list[str]:
    return [iso(int(datetime(2030, 3, day, hour, tzinfo=UTC).timestamp() * 1_000)) for day in days]


def restarted(path: Path, trigger: str, down_ms: int, after: str | None = None) -> list[str]:
    """What fired where a machine ran for a day, was down, and ran for a day again."""
    clock = VirtualClock(BEGIN_MS)
    with machine(path, clock, flow(trigger)) as first:
        first.run_until(BEGIN_MS + DAY_MS)
    clock.advance(down_ms)
    with machine(path, clock, flow(after or trigger)) as second:
        second.run_until(clock.now_ms() + DAY_MS)
        return second.fired()


def test_after_a_pause_the_last_time_that_was_missed_is_made_up_for(tmp_path: Path) -> None:
    assert restarted(tmp_path, '{schedule: "0 9 * * *"}', 3 * DAY_MS) == at(2, 5, 6)


def test_with_catch_up_all_that_were_missed_within_it_are(tmp_path: Path) -> None:
    trigger = '{schedule: "0 9 * * *", overlap: allow, catch_up: 2d}'
    assert restarted(tmp_path, trigger, 4 * DAY_MS) == at(2, 5, 6, 7)


def test_with_catch_up_of_nothing_none_is(tmp_path: Path) -> None:
    assert restarted(tmp_path, '{schedule: "0 9 * * *", catch_up: 0}', 3 * DAY_MS) == at(2, 6)


def test_what_a_paused_schedule_missed_is_not_made_up_for(tmp_path: Path) -> None:
    clock = VirtualClock(BEGIN_MS)
    with machine(tmp_path, clock, flow('{schedule: "0 9 * * *", overlap: allow, catch_up: 30d}')) as one:
        one.run_until(BEGIN_MS + DAY_MS)
        run_now(one.parts.scheduling.pause("flow:1", "the move", "ana"))
        one.run_until(BEGIN_MS + 3 * DAY_MS)
        run_now(one.parts.scheduling.unpause("flow:1"))
        one.run_until(BEGIN_MS + 5 * DAY_MS)
        assert one.fired() == at(2, 5, 6)


def test_a_rate_goes_on_in_its_own_rhythm(tmp_path: Path) -> None:
    hours = restarted(tmp_path, '{schedule: "rate(10 hours)"}', 7 * HOUR_MS)
    assert hours == [iso(BEGIN_MS + count * 10 * HOUR_MS) for count in (1, 2, 3, 4, 5)]


def test_a_schedule_with_other_times_counts_from_its_deployment_on(tmp_path: Path) -> None:
    after = '{schedule: "0 8 * * *"}'
    assert restarted(tmp_path, '{schedule: "0 9 * * *"}', DAY_MS, after) == [*at(2), *at(4, hour=8)]


def test_a_clock_that_was_ahead_for_a_while_does_not_silence_a_schedule(tmp_path: Path) -> None:
    """Nor does a small step back start a second run for a time that has fired."""
    machine = Machine(Database(tmp_path / "s.db"), VirtualClock(BEGIN_MS), flow("{schedule: '0 * * * *'}"))
    machine.run_until(BEGIN_MS + HOUR_MS)
    machine.clock.set(BEGIN_MS + 3_650 * DAY_MS)
    machine.tick()
    assert len(machine.fired()) == 2
    machine.clock.set(BEGIN_MS + HOUR_MS - 500)
    machine.tick()
    machine.run_until(BEGIN_MS + 3 * HOUR_MS)
    assert machine.fired()[:3] == [iso(BEGIN_MS + hours * HOUR_MS) for hours in (1, 2, 3)]
    assert len(machine.fired()) == 4


def test_a_time_whose_message_was_sent_and_not_handled_starts_one_run(tmp_path: Path) -> None:
    clock = VirtualClock(BEGIN_MS)
    with machine(tmp_path, clock, flow('{schedule: "0 9 * * *"}')) as first:
        clock.set(BEGIN_MS + DAY_MS)
        first.ticker.tick()
        first.ticker.tick()  # once is enough for one process
        assert first.queue.pending() == 1
    with machine(tmp_path, clock, flow('{schedule: "0 9 * * *"}')) as second:
        assert second.fired() == at(2)


def test_a_callers_schedule_fires_from_when_it_was_made_until_it_is_deleted(tmp_path: Path) -> None:
    with machine(tmp_path, VirtualClock(BEGIN_MS), flow("{event: never}")) as here:
        made = Schedule("often", "flow", "rate(1 hour)", input={"scheduled_at": "given"})
        run_now(here.parts.scheduling.create(made))
        here.tick()
        here.run_until(BEGIN_MS + 3 * HOUR_MS)
        assert here.fired() == ["given"] * 3
        run_now(here.parts.scheduling.remove("often"))
        here.run_until(BEGIN_MS + 9 * HOUR_MS)
        assert here.fired() == ["given"] * 3
        run_now(here.parts.scheduling.create(made))  # made anew, it has missed nothing
        here.tick()
        assert here.fired() == ["given"] * 3


# -- where it ticks


def test_the_kits_time_makes_schedules_fire_across_a_change_of_clocks(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    kit.define("workflow: nightly\ntriggers: [{schedule: '30 2 * * *', timezone: Europe/Madrid}]\n"
               "timeline: [{name: a, sleep: 1s}]")  # fmt: skip
    kit.advance("90d")  # from 1 January 2030 to 1 April; the night of 31 March has no half past two
    runs = kit.runs("nightly")
    assert len(runs) == 89
    assert {run.status for run in runs} == {"completed"}
    assert runs[-1].view["input"]["scheduled_at"] == "2030-04-01T00:30:00.000Z"


def test_the_dev_server_fires_what_it_missed(dev: Callable[[], Dev], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = Database(tmp_path / "data" / "stepwell.db")
    an_hour_ago_ms = (time.time_ns() // 1_000_000) - HOUR_MS
    made = Schedule("often", "order", "rate(25 minutes)", input={"n": 1}, since_ms=an_hour_ago_ms)
    run_now(SqliteStore(database).put_note(SCHEDULE, "often", encode(asdict(made)), None))
    database.close()
    server = dev()
    (run,) = until(lambda: server.call("GET", "/runs?workflow=order")[1]["items"], "the run of a firing")
    (listed,) = server.call("GET", "/schedules")[1]["items"]
    assert listed["last_run_id"] == run["run_id"]
    assert listed["last_at"] == iso(an_hour_ago_ms + 50 * 60_000)
    assert listed["next"][0] == iso(an_hour_ago_ms + 75 * 60_000)

"""What a run costs on DynamoDB, SQS and Scheduler: counted in write units, the indexes included."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stepwell.limits import DAY_MS, HOUR_MS, SNAPSHOT_RECORDS
from stepwell.runtime.loop.driving import run_now
from tests.aws.kit import AwsWorld, aws_world
from tests.runtime.kit import fails

CHAIN = "workflow: flow\ntimeline: [" + ", ".join(f"{{name: s{n}, run: python:m.s}}" for n in range(10)) + "]"
LOOP = """
workflow: flow
nodes:
  work:
    run: python:m.work
    output: {last: "{{ result }}"}
    max_visits: 100000
    transitions: [{to: work, when: "result < 1200"}, {to: end}]
"""
EVENT = (
    "workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid, key: k}}, {name: after, run: python:m.a}]"
)
APPROVAL = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval}}, {name: after, run: python:m.a}]"
LOCKED = "workflow: flow\nlock: 'thread-{{ input.thread }}'\ntimeline: [{name: s, run: python:m.s}]"
NAP = "workflow: flow\ntimeline: [{name: nap, sleep: 20d}, {name: after, run: python:m.a}]"


@contextmanager
def warm(definition: str) -> Iterator[AwsWorld]:
    """A world in which one run has been already: the first of a version stores its definition and its name."""
    with aws_world(definition) as world:
        world.start()
        world.deliver()
        world.meter.clear()
        world.sent.clear()
        yield world


@contextmanager
def waiting(definition: str) -> Iterator[tuple[AwsWorld, str]]:
    """A run that is parked, everything before it off the meter."""
    with aws_world(definition) as world:
        run_id = world.start()
        world.deliver()
        world.meter.clear()
        world.sent.clear()
        yield world, run_id


def of_the_resume(world: AwsWorld) -> Counter[str]:
    """What the resume wrote, the move to the next node included: all but the step there and the run's end."""
    return world.meter.units - Counter(LOG=1, RUN=2)


def test_a_chain_of_ten_steps_costs_ten_units_for_its_steps_and_six_for_its_start_and_end() -> None:
    with warm(CHAIN) as world:
        run_id = world.start(given={"order": "4711"}, tags={"team": "shop"})
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert world.meter.units == Counter(LOG=10, RUN=6)


def test_a_chain_of_ten_steps_is_one_message() -> None:
    with warm(CHAIN) as world:
        world.start()
        assert world.deliver() == 1  # the one invocation of the worker
        sent = Counter(world.sent)
        assert set(sent) <= {"SendMessage", "ReceiveMessage", "DeleteMessage"}
        assert (sent["SendMessage"], sent["DeleteMessage"]) == (1, 1)


def test_the_only_call_between_two_steps_is_the_append() -> None:
    with warm(CHAIN) as world:
        seen: list[Counter[str]] = []
        for number in range(10):
            world.steps.of[f"s{number}"] = lambda _: seen.append(Counter(world.meter.requests))
        world.start()
        world.deliver()
        assert [later - earlier for earlier, later in itertools.pairwise(seen)] == [Counter(put_item=1)] * 9


def test_a_run_that_fails_costs_one_unit_more_for_its_entry_among_the_failed() -> None:
    with warm(CHAIN) as world:
        world.steps.of["s3"] = lambda _: fails()
        run_id = world.start()
        world.deliver()
        assert world.header(run_id).status == "failed"
        assert world.meter.units["RUN"] == 7


def test_an_input_of_ten_kilobytes_is_written_once() -> None:
    with warm(CHAIN) as world:
        run_id = world.start(given="x" * 10_000)
        world.deliver()
        assert world.meter.units["RUN"] == 6 + 10
        assert world.header(run_id).input == "x" * 10_000


@pytest.mark.parametrize(
    ("definition", "units", "schedules"),
    [(EVENT, {"LOG": 1, "RUN": 1, "W": 1}, 1), (APPROVAL, {"LOG": 1, "RUN": 1}, 1), (NAP, {"LOG": 1, "RUN": 1}, 1)],
    ids=["event", "approval", "sleep"],
)
def test_a_wait_costs_its_record_its_registrations_and_the_header_and_one_timer(
    definition: str, units: dict[str, int], schedules: int
) -> None:
    with warm(definition) as world:
        world.start()
        world.meter.clear()
        world.deliver()
        units = {**units, "RUN": units["RUN"] + 1}  # and the run is picked up
        assert dict(world.meter.units) == units
        assert sum(units.values()) <= 6
        assert Counter(world.sent)["CreateSchedule"] == schedules


def test_a_resume_by_timer_costs_its_record_and_the_header() -> None:
    with waiting(NAP) as (world, run_id):
        world.pass_time(20 * DAY_MS)
        assert world.header(run_id).status == "completed"
        assert of_the_resume(world) == Counter(LOG=2, RUN=1)
        assert of_the_resume(world).total() <= 4


def test_a_resume_by_approval_costs_its_record_and_the_header() -> None:
    with waiting(APPROVAL) as (world, run_id):
        run_now(world.service.approve(run_id))
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert of_the_resume(world) == Counter(LOG=2, RUN=1)
        assert of_the_resume(world).total() <= 4


def test_a_wait_for_an_event_that_times_out_costs_its_record_the_header_and_the_registrations() -> None:
    with waiting(EVENT) as (world, run_id):
        world.pass_time(25 * HOUR_MS)
        assert world.header(run_id).status.terminal
        assert world.meter.units == Counter(LOG=2, RUN=1 + 3, W=1)
        assert world.meter.total - 3 <= 4  # 3: it failed, which lists it among the failed


@pytest.mark.parametrize("to_the_run", [False, True])
def test_a_resume_by_a_consumed_event_costs_the_event_the_transaction_the_move_the_header_and_the_registration(
    to_the_run: bool,
) -> None:
    with waiting(EVENT) as (world, run_id):
        where = {"run_id": run_id} if to_the_run else {"key": "k"}
        run_now(world.service.send_event("paid", {"amount": 3}, **where))
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert of_the_resume(world) == Counter(E=1 + 2, LOG=2 + 1, RUN=1, W=1)
        assert of_the_resume(world).total() <= 8


def test_an_event_that_came_before_its_wait_costs_no_more() -> None:
    with aws_world(EVENT) as world:
        run_now(world.service.send_event("paid", {"amount": 3}, key="k"))
        world.deliver()
        assert dict(world.meter.units) == {"E": 1}
        run_id = world.start()
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert (world.meter.units["E"], world.meter.units["W"]) == (3, 2)


def test_a_lock_that_is_free_costs_two_records_two_writes_of_its_queue_and_one_of_the_header() -> None:
    with warm(LOCKED) as world:
        run_id = world.start(given={"thread": 7})
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert world.meter.units == Counter(LOG=1 + 2, RUN=6 + 1, NOTE=2)
        assert Counter(world.sent)["SendMessage"] == 1


def test_a_lock_that_another_has_costs_one_write_of_the_header_and_one_message_more() -> None:
    with warm(LOCKED.replace("run: python:m.s", "wait: {for: approval}")) as world:
        first, second = [world.start(given={"thread": 7}) for _ in range(2)]
        world.deliver()
        assert world.header(second).waiting_for == "lock"
        run_now(world.service.approve(first))
        world.deliver()
        run_now(world.service.approve(second))
        world.deliver()
        assert world.header(second).status == "completed"
        assert world.meter.units == Counter(LOG=2 * (3 + 2), RUN=2 * (6 + 2 + 1) + 1, NOTE=4)
        assert Counter(world.sent)["SendMessage"] == 2 * 2 + 1


def test_a_sleep_of_twenty_days_ends_at_its_very_second_although_its_schedule_fires_early() -> None:
    with waiting(NAP) as (world, run_id):
        world.pass_time(20 * DAY_MS - 1)
        assert world.header(run_id).status == "waiting"
        assert "SendMessage" in world.sent  # it fired, and was sent again for the time that is left
        world.pass_time(1_000)
        header = world.header(run_id)
        assert header.status == "completed"
        assert header.ended_ms - header.started_ms <= 20 * DAY_MS + 999


def test_step_1000_costs_what_step_1_costs() -> None:
    with aws_world(LOOP) as world:
        spent: list[tuple[int, int]] = []

        def work(_: object) -> int:
            spent.append((world.meter.units["LOG"], world.meter.requests.total()))
            return len(spent)

        world.steps.of["work"] = work
        run_id = world.start()
        world.deliver()
        assert world.header(run_id).status == "completed"
        steps = [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in itertools.pairwise(spent)]
        assert {units for units, _ in steps} == {1}
        assert steps[998] == steps[0] == (1, 1)
        assert [requests for _, requests in steps].count(2) == 1_200 // 200 - (1_200 % 200 == 0)  # a snapshot each
        assert world.meter.units["SNAP"] <= 6


@pytest.mark.parametrize(("forks_kept", "times"), [(0, 2), (8, 1)], ids=["cold", "warm"])
def test_a_resume_after_500_steps_reads_a_snapshot_and_the_records_after_it(forks_kept: int, times: int) -> None:
    """Who answers reads them, and the worker: a process that has just read them reads what is new."""
    text = LOOP.replace("1200", "500").replace("{to: end}", "{to: hold}") + "  hold: {wait: {for: approval}}\n"
    with aws_world(text, forks_kept=forks_kept) as world:
        world.steps.of["work"] = lambda _: len(world.steps.calls)
        run_id = world.start()
        world.deliver()
        world.meter.clear()
        world.store.calls.clear()
        world.store.records_read = 0
        run_now(world.service.approve(run_id))
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert world.store.calls["load"] == 2
        assert world.store.records_read <= times * (1 + SNAPSHOT_RECORDS) + 1
        assert world.meter.requests["get_item"] == times  # the snapshots
        assert world.meter.requests["query"] == world.store.calls["get_run"] + 2  # and the records after them


def test_a_run_that_starts_in_two_days_begins_at_that_time() -> None:
    with aws_world(CHAIN) as world:
        run_id = world.start(start_at_ms=world.clock.now_ms() + 2 * DAY_MS)
        world.pass_time(2 * DAY_MS - 1)
        assert world.header(run_id).status == "pending"
        world.pass_time(1_000)
        assert world.header(run_id).status == "completed"


def chain(steps: int, durability: str) -> str:
    lines = ", ".join(f"{{name: s{n}, run: python:m.s}}" for n in range(steps))
    return f"workflow: flow\ndurability: {durability}\ntimeline: [{lines}]"


@pytest.mark.parametrize(("steps", "units"), [(10, 1), (100, 10)])
def test_ten_small_steps_that_are_written_together_cost_a_write_unit(steps: int, units: int) -> None:
    """In place of one each: 0.1 write units a step."""
    logs = []
    for durability in ("step", "batch"):
        with warm(chain(steps, durability)) as world:
            run_id = world.start()
            world.deliver()
            assert world.header(run_id).status == "completed"
            logs.append(world.meter.units["LOG"])
    assert logs == [steps, units]

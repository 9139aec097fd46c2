"""What a run costs in a deployed project: counted through the functions' handlers, in a pool of `stepwell init`.

There an invocation lasts five minutes, which is the time limit of a step without `timeout` too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from ministack.services import scheduler, sqs

from stepwell.limits import SECOND_MS
from tests.aws.meter import Meter
from tests.contract.emulated import item_of
from tests.functions.conftest import Deploy
from tests.functions.kit import ROOT, Deployment

TEMPLATE = (ROOT / "shared" / "stepwell" / "cli" / "templates" / "common" / "table.tmpl").read_text(encoding="utf-8")
INVOCATION_SECONDS = int(re.findall(r"timeout_seconds = (\d+)", TEMPLATE)[0])
QUICK, LONG = 10, 5_000  # milliseconds of a step
NAMES = [f"s{number}" for number in range(10)]
TIMELINE = "timeline: [" + ", ".join(f"{{name: {name}, run: python:m.a}}" for name in NAMES) + "]"
CHAINS = {
    "timeline": TIMELINE,
    "nodes": "nodes: {" + ", ".join(f"s{n}: {{run: python:m.a, transitions: [{{to: s{n + 1}}}]}}" for n in range(9))
    + ", s9: {run: python:m.a}}",
    "States": "resources: {a: 'python:m.a'}\nStartAt: s0\nStates: {"
    + ", ".join(f"s{n}: {{Type: Task, Resource: a, Next: s{n + 1}}}" for n in range(9))
    + ", s9: {Type: Task, Resource: a, End: true}}",
    "function": "function: python:m.flow",
}  # fmt: skip
DAG = "steps: [" + ", ".join(
    f"{{name: {name}, run: python:m.a, depends_on: [{', '.join(before)}]}}"
    for name, before in zip(NAMES, [[], *([name] for name in NAMES)], strict=False)
) + "]"  # fmt: skip
FORK = """nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.numbers }}", as: n}]}
  work: {run: python:m.a, output: {n: 1}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
"""
STEPS = """
import world
from stepwell import Transient, workflow

def a(ctx):
    world.clock.advance({lasts_ms})
    if ctx.attempt <= {failures}:
        raise Transient("not yet")
    return {{}}

async def flow(ctx):
    for _ in range(10):
        await ctx.step(a)
flow.__stepwell_workflow__ = "flow"

@workflow(name="child")
async def child(ctx):
    await ctx.step(a)
"""


class Bill:
    """Starts runs of one workflow, and counts what one of them takes."""

    def __init__(self, stack: Deployment) -> None:
        self.stack, cloud = stack, stack.cloud
        self._meter = Meter(cloud.clients.dynamodb(), item_of)
        cloud.clients._made["dynamodb"] = self._meter

    def of(self, start: Callable[[], object]) -> tuple[int, int, int, int]:
        """Write units, requests to SQS, invocations and schedules of a run that is not the first of its version."""
        for _ in range(2):
            self._meter.clear()
            self.stack.cloud.calls.clear()
            start()
            invocations = self._settle()
        calls = Counter(self.stack.cloud.calls)
        runs = self.stack.call("GET", "/runs")[1]["items"]
        assert {run["status"] for run in runs} == {"completed"}
        sent = calls["SendMessage"] + calls["SendMessageBatch"] + calls["CreateSchedule"]
        return self._meter.total, sent + 2 * invocations, invocations, calls["CreateSchedule"]

    def of_one(self, given: Any = None) -> tuple[int, int, int, int]:
        """Those of a run that a caller starts."""
        return self.of(lambda: self.stack.start(given))

    def shown(self) -> tuple[int, int, int, int]:
        """The same of the newest run, as its view has them."""
        newest = self.stack.call("GET", "/runs")[1]["items"][0]
        cost = self.stack.run(newest["run_id"])["cost"]
        return cost["write_units"], cost["queue_requests"], cost["invocations"], cost["schedules"]

    def _settle(self) -> int:
        """Delivers all messages and timers, however late they are. Returns how many invocations there were."""
        invocations = self.stack.deliver(timeout_seconds=INVOCATION_SECONDS)
        while (due := min(_dues(), default=None)) is not None:
            self.stack.clock.set(max(self.stack.clock.now_ms(), int(due * SECOND_MS) + 1))
            invocations += self.stack.deliver(timeout_seconds=INVOCATION_SECONDS)
        return invocations


def _dues() -> Iterator[float]:
    yield from (message["visible_at"] for queue in sqs._queues._data.values() for message in queue["messages"])
    yield from (scheduler._at_time_epoch(one["ScheduleExpression"]) for one in scheduler._schedules._data.values())


@pytest.fixture
def bill(deployed: Deploy) -> Callable[..., Bill]:
    def made(definition: str, lasts_ms: int = QUICK, failures: int = 0) -> Bill:
        steps = STEPS.format(lasts_ms=lasts_ms, failures=failures)
        return Bill(deployed(f"workflow: flow\n{definition}", steps))

    return made


@pytest.mark.parametrize("lasts_ms", [QUICK, LONG])
@pytest.mark.parametrize(("name", "units"), [("timeline", 16), ("nodes", 16), ("States", 16), ("function", 17)])
def test_a_chain_of_ten_steps_is_one_message_and_invocation(
    bill: Callable[..., Bill], name: str, units: int, lasts_ms: int
) -> None:
    assert bill(CHAINS[name], lasts_ms).of_one() == (units, 3, 1, 0)


def test_a_chain_of_ten_steps_in_one_write_costs_seven_units(bill: Callable[..., Bill]) -> None:
    assert bill(f"durability: batch\n{TIMELINE}").of_one() == (7, 3, 1, 0)


def test_a_step_that_runs_at_most_once_costs_a_unit_more(bill: Callable[..., Bill]) -> None:
    assert bill("timeline: [{name: s, run: python:m.a, at_most_once: true}]").of_one() == (7 + 1, 3, 1, 0)


@pytest.mark.parametrize("lasts_ms", [QUICK, LONG])
def test_a_dag_of_ten_steps_is_two_messages(bill: Callable[..., Bill], lasts_ms: int) -> None:
    assert bill(DAG, lasts_ms).of_one() == (28, 6, 2, 0)


def test_a_run_that_may_take_a_week_costs_a_timer_and_its_message_more(bill: Callable[..., Bill]) -> None:
    assert bill(f"timeout: 7d\n{TIMELINE}").of_one() == (16, 3 + 3, 2, 1)


@pytest.mark.parametrize(("delay", "messages", "schedules"), [("10s", 1, 0), ("30m", 2, 1)])
def test_a_further_attempt_costs_its_record_and_a_message_or_a_timer_and_two(
    bill: Callable[..., Bill], delay: str, messages: int, schedules: int
) -> None:
    retry = f"retry: {{max_retries: 1, initial_delay: {delay}, max_delay: 1h}}"
    made = bill(f"timeline: [{{name: s, run: python:m.a, {retry}}}]", failures=1)
    assert made.of_one() == (7 + 1, 3 + 3 * messages, 1 + messages, schedules)
    assert made.shown() == (7 + 1, 3 + 3 * messages, 1 + messages, schedules)


@pytest.mark.parametrize(("lasts_ms", "costs"), [(QUICK, (20, 24, 11, 0)), (LONG, (200, 214, 101, 0))])
def test_ten_branches_share_a_message_and_a_write_and_longer_ones_have_their_own(
    bill: Callable[..., Bill], lasts_ms: int, costs: tuple[int, ...]
) -> None:
    made = bill(FORK, lasts_ms)
    assert made.of_one({"numbers": list(range(100))}) == costs
    assert made.shown() == costs


def test_a_child_run_costs_its_own_and_five_units_two_messages_and_a_timer(bill: Callable[..., Bill]) -> None:
    costs = bill("timeline: [{name: ask, run: 'workflow:child'}]").of_one()
    assert costs == (6 + 8 + 5, 3 + 3 + 3 + 3, 4, 1)


def test_a_run_that_an_event_starts_costs_a_unit_and_a_message_more(bill: Callable[..., Bill]) -> None:
    made = bill(f"triggers: [{{event: begin}}]\n{TIMELINE}")
    costs = made.of(lambda: made.stack.call("POST", "/events", {"name": "begin", "payload": {}}))
    assert costs == (16 + 1, 3 + 3, 2, 0)


def test_a_run_that_a_schedule_starts_costs_two_units_and_two_messages_more(bill: Callable[..., Bill]) -> None:
    made = bill(f"triggers: [{{schedule: 'rate(1 hour)'}}]\n{TIMELINE}")

    def fires() -> None:
        made.stack.pass_time(3_600)
        at = datetime.fromtimestamp(made.stack.clock.now_ms() // SECOND_MS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made.stack.send("resume", json.dumps({"type": "scheduled", "schedule": "flow:1", "at": at}))

    assert made.of(fires) == (16 + 2, 3 + 6, 3, 0)

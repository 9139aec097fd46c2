"""The ledger of a run: worked out from its records, it is what emulated AWS is called for.

tests/scenarios compares it in each test of each example.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stepwell.api.runs.views import read_run
from stepwell.definition.graph import Json, Limit
from stepwell.limits import DAY_MS, FORK_LANE, SURVEY_WIDTH
from stepwell.prices import Prices, usd_on_durable_functions, usd_on_step_functions
from stepwell.runtime.calls.ledger import Cost
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.kit import Stepwell
from tests.aws.kit import AwsWorld, aws_world
from tests.aws.ledger_kit import metered
from tests.aws.test_costs import APPROVAL, CHAIN, EVENT, LOCKED, LOOP, NAP
from tests.runtime.kit import fails

FORK = """
workflow: flow
nodes:
  split: {transitions: [{to: each, foreach: "{{ input.items }}"}]}
  each: {run: python:m.each, transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""
TWO_STEPS = FORK.replace("{to: join}", "{to: more}") + "  more: {run: python:m.more, transitions: [{to: join}]}\n"
SOME_FAIL = FORK.replace("policy: all", "policy: all, tolerate: {percent: 50}")
NAPS = """
workflow: flow
nodes:
  split: {transitions: [{to: each, foreach: "{{ input.items }}"BOUND}]}
  each: {run: python:m.each, transitions: [{to: nap, when: "{{ result }}"}, {to: join}]}
  nap: {sleep: "NAP", transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""
LIMITED = CHAIN.replace("timeline", "concurrency: {limit: 5}\nrate_limit: {limit: 9, per: 1s}\ntimeline")

BATCHED = CHAIN.replace("timeline", "durability: batch\ntimeline")

THROTTLED = """
workflow: flow
timeline: [{name: pay, run: python:m.pay, throttle: stripe}, {name: last, run: python:m.last, throttle: stripe}]
"""


def lived(world: AwsWorld, given: object) -> str:
    run_id = world.start(given=given)
    world.deliver()
    match world.header(run_id).waiting_for:
        case "approval":
            run_now(world.service.approve(run_id))
        case "event":
            run_now(world.service.send_event("paid", {}, key="k"))
    world.pass_time(20 * DAY_MS)
    assert world.header(run_id).status == "completed"
    return run_id


def ledger(world: AwsWorld, run_id: str) -> Cost:
    _, cost = run_now(world.service.surveyed_with_cost(run_now(world.service.standing(run_id))))
    return cost


@pytest.mark.parametrize("definition", [CHAIN, APPROVAL, NAP, EVENT, LOCKED, FORK, LIMITED, THROTTLED, BATCHED],
                         ids=["chain", "approval", "sleep", "event", "lock", "fork", "limits", "throttle",
                              "batch"])  # fmt: skip
@pytest.mark.parametrize("items", [10, 100, 250])
def test_the_ledger_is_what_was_counted(definition: str, items: int) -> None:
    given = {"thread": 1, "items": list(range(items))}
    with aws_world(definition) as world:
        world.catalog.limits = {"stripe": Limit(5)}
        lived(world, given)
        world.pass_time(60_000)
        world.meter.clear()
        world.sent.clear()
        run_id = lived(world, given)
        units, calls = world.meter.units.total(), Counter(world.sent)
        cost = ledger(world, run_id)
    assert (cost.write_units, cost.is_whole) == (units, True)
    assert cost.schedules == calls["CreateSchedule"]
    assert cost.invocations == calls["DeleteMessage"]
    sends = calls["SendMessage"] + calls["SendMessageBatch"] + calls["CreateSchedule"]
    assert abs(cost.queue_requests - sends - 2 * calls["DeleteMessage"]) <= 3  # a batch where only some are sent


PAPERS = """
workflow: flow
timeline: [{name: papers, wait: {for: document, key: k, documents: [cv, photo, card, visa], timeout: 30d}}]
"""


@pytest.mark.parametrize("there", [0, 1, 2, 3])
def test_of_events_that_a_wait_takes_at_once_one_sets_the_timer(there: int) -> None:
    """Those that were there before it."""
    with aws_world(PAPERS) as world:
        run_now(world.service.cancel(world.start()))  # the first run of a version keeps its definition
        world.pass_time(60_000)
        world.meter.clear()
        world.sent.clear()
        for name in ["cv", "photo", "card"][:there]:
            run_now(world.service.send_event("DOCUMENT_UPLOADED", {"document": name}, key="k"))
        world.pass_time(60_000)
        run_id = world.start()
        world.pass_time(60_000)
        units, schedules = world.meter.units.total(), world.sent.count("CreateSchedule")
        cost = ledger(world, run_id)
    assert (cost.write_units, cost.schedules) == (units, schedules)


@pytest.mark.parametrize("definition", [FORK, TWO_STEPS, SOME_FAIL], ids=["a step", "two steps", "some fail"])
@pytest.mark.parametrize("result", [2, 1_000, 5_000, 30_000])
@pytest.mark.parametrize("items", [10, 100, 130])
def test_the_ledger_of_a_fork_with_lanes_is_what_was_counted(definition: str, result: int, items: int) -> None:
    with aws_world(definition, lane=FORK_LANE) as world:
        world.steps.of["each"] = lambda call: fails() if _fails(definition, call) else "x" * result
        lived(world, {"items": [1]})
        world.meter.clear()
        world.stored.clear()
        run_id = lived(world, {"items": list(range(items))})
        units, objects = world.meter.units.total(), Counter(world.stored)["PutObject"]
        cost = ledger(world, run_id)
    assert (cost.write_units, cost.objects, cost.is_whole) == (units, objects, True)


TIMED = CHAIN.replace("timeline", "timeout: 2h\ntimeline")


@pytest.mark.parametrize(
    ("definition", "broken", "items"),
    [(CHAIN, "s5", 0), (TIMED, "s5", 0), (FORK, "each", 3), (FORK, "each", 30), (FORK, "each", 120),
     (TWO_STEPS, "more", 30)],
    ids=["chain", "with a time limit", "fork", "fork of three chunks", "fork of two pages", "two steps"],
)  # fmt: skip
def test_the_ledger_of_a_redriven_run_has_each_of_its_messages_once(definition: str, broken: str, items: int) -> None:
    with aws_world(definition) as world:
        world.steps.of[broken] = lambda call: fails() if call.token[-1] in "02" else 1
        failed = world.start(given={"items": list(range(items))})
        world.pass_time(DAY_MS)
        world.meter.clear()
        world.sent.clear()
        world.steps.of[broken] = lambda _: 1
        run_id = run_now(world.service.redrive(failed)).header.run_id
        world.pass_time(DAY_MS)
        units, calls, cost = world.meter.units.total(), Counter(world.sent), ledger(world, run_id)
        assert world.header(run_id).status == "completed"
    assert (cost.write_units, cost.schedules) == (units, calls["CreateSchedule"])
    assert cost.invocations == calls["DeleteMessage"]


@pytest.mark.parametrize("items", [10, 50])
def test_a_fork_whose_branches_have_their_permits_at_once_is_never_shown_waiting(items: int) -> None:
    with aws_world(FORK.replace("m.each", "m.each, throttle: stripe")) as world:
        world.catalog.limits = {"stripe": Limit(100)}
        lived(world, {"items": [1]})
        world.meter.clear()
        run_id = lived(world, {"items": list(range(items))})
        units, cost = world.meter.units.total(), ledger(world, run_id)
    assert cost.write_units == units


PATTERNS = Path(__file__).parents[2] / "examples" / "patterns"
IN_TURN = "{{ branch.item + 1 }}s"


@pytest.mark.parametrize(
    ("nap", "bound", "lane", "items"),
    [
        ("1m", "", 0, 100),
        ("1m", "", FORK_LANE, 30),
        (IN_TURN, "", 0, 30),
        (IN_TURN, ", max_concurrency: 7", FORK_LANE, 30),
        ("1m", ", max_concurrency: 7", 0, 30),  # of those who wake in one millisecond, the join has the order
        ("1m", ", max_concurrency: 20", 0, 40),
        ("1m", "", 0, 120),
    ],
)
def test_the_ledger_of_a_fork_of_which_a_third_sleeps_is_what_was_counted(
    nap: str, bound: str, lane: int, items: int
) -> None:
    with aws_world(NAPS.replace("NAP", nap).replace("BOUND", bound), lane=lane) as world:
        world.steps.of["each"] = lambda call: int(call.token.rpartition(".")[2]) % 3 == 0
        lived(world, {"items": [1]})
        world.meter.clear()
        world.sent.clear()
        run_id = lived(world, {"items": list(range(items))})
        units, calls = world.meter.units.total(), Counter(world.sent)
        cost = ledger(world, run_id)
    assert (cost.write_units, cost.invocations) == (units, calls["DeleteMessage"])


@pytest.mark.parametrize(
    ("pattern", "given", "approved"),
    [
        ("12-multiple-instances-without-synchronization", ["ann", "ben", "cyd"], ["0/0.2", "0/0.0", "0/0.1"]),
        ("25-cancel-region", None, ["0/0.0/0.0", "0/0.0/0.0", "0/0.1"]),  # which closes a branch that waits
        ("25-cancel-region", None, ["0/0.1", "0/0.0/0.0", "0/0.0/0.0"]),
    ],
)
def test_the_ledger_of_branches_that_are_approved_in_one_millisecond_is_what_was_counted(
    pattern: str, given: Json, approved: list[str]
) -> None:
    with metered() as world:
        kit = Stepwell(PATTERNS, world.backend)
        run = kit.start(pattern, given)
        for wait in approved:
            run.approve(wait=wait)
        assert run.status == "completed"
        assert world.ledger(kit) == world.counted()


def _fails(definition: str, call: StepCall) -> bool:
    return definition == SOME_FAIL and int(call.token.rpartition(".")[2]) % 7 == 3


def test_the_cost_of_a_long_run_is_scaled_from_its_first_records() -> None:
    with aws_world(LOOP) as world:
        world.steps.of["work"] = lambda _: len(world.steps.calls)
        world.start()
        world.deliver()
        cost = ledger(world, "run_" + f"{1:026d}")
        assert not cost.is_whole
        assert cost.records == 1_200
        assert abs(cost.write_units - world.meter.total) <= 0.01 * world.meter.total


def test_of_a_fork_too_wide_to_be_read_the_first_page_stands_for_the_others() -> None:
    with aws_world(FORK) as world:
        lived(world, {"items": [1]})
        world.meter.clear()
        run_id = lived(world, {"items": list(range(SURVEY_WIDTH + 50))})
        units, cost = world.meter.units.total(), ledger(world, run_id)
    assert not cost.is_whole
    assert abs(cost.write_units - units) <= 0.01 * units


@pytest.mark.parametrize(
    ("definition", "items", "more"),
    [(FORK, 100, 0), (FORK, 250, 0), (CHAIN, 100, 0)],
    ids=["fork", "fork of three pages", "chain"],
)
def test_a_ledger_takes_no_write_and_at_most_one_read_more_than_the_view(
    definition: str, items: int, more: int
) -> None:
    with aws_world(definition) as world:
        run_id = lived(world, {"items": list(range(items))})
        at = run_now(world.service.standing(run_id))
        world.meter.clear()
        run_now(world.service.survey(at))
        before = world.meter.requests.total()
        run_now(world.service.surveyed_with_cost(at))
        assert world.meter.total == 0
        assert world.meter.requests.total() - before == before + more


def test_a_run_without_forks_is_shown_with_its_cost_by_one_read_each_of_its_header_its_snapshot_and_its_log() -> None:
    with aws_world(CHAIN) as world:
        run_id = lived(world, {"items": []})
        world.meter.clear()
        run_now(read_run(world.service, run_id))
        assert world.meter.requests == {"query": 2, "get_item": 1}


@pytest.mark.parametrize(("steps", "functions", "durable"), [(10, 302, 91), (100, 2_570, 831)])
def test_a_chain_elsewhere_costs_what_was_worked_out_from_its_price_page(
    steps: int, functions: float, durable: float
) -> None:
    """USD for a million runs of steps that take no time."""
    used, prices = Counter(steps=steps, output_bytes=100 * steps), Prices()
    assert usd_on_step_functions(used, prices) * 1e6 == pytest.approx(functions, rel=0.01)
    assert usd_on_durable_functions(used, prices) * 1e6 == pytest.approx(durable, rel=0.04)

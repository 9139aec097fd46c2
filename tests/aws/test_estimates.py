"""Estimates: the figures for this system are what emulated AWS was called for, the others those that AWS publishes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.cli.prices import Prices
from stepwell.cli.usage import Usage, usage_of
from stepwell.runtime.calls.exporting import read_export
from stepwell.runtime.loop.driving import run_now
from tests.aws.kit import AwsWorld, aws_world
from tests.aws.test_costs import APPROVAL, CHAIN, EVENT, LOCKED, NAP

FORK = """
workflow: flow
nodes:
  split: {transitions: [{to: each, foreach: "{{ input.items }}"}]}
  each: {run: python:m.each, transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""
LIMITED = CHAIN.replace("timeline", "concurrency: {limit: 5}\nrate_limit: {limit: 9, per: 1s}\ntimeline")
DAY_MS = 86_400_000


def lived(world: AwsWorld, given: Any) -> str:
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


def estimated(world: AwsWorld, run_id: str) -> Usage:
    page = run_now(read_export(world.parts.ports, world.header(run_id), "", 500))
    return usage_of(json.loads(json.dumps(page.items)))


@pytest.mark.parametrize("definition", [CHAIN, APPROVAL, NAP, EVENT, LOCKED, FORK, LIMITED],
                         ids=["chain", "approval", "sleep", "event", "lock", "fork", "limits"])  # fmt: skip
def test_the_write_units_schedules_and_messages_are_those_that_were_counted(definition: str) -> None:
    given = {"thread": 1, "items": list(range(10))}
    with aws_world(definition) as world:
        lived(world, given)
        world.pass_time(60_000)
        world.meter.clear()
        world.sent.clear()
        run_id = lived(world, given)
        units, schedules = world.meter.units.total(), world.sent.count("CreateSchedule")
        messages = world.sent.count("SendMessage") + schedules
        used = estimated(world, run_id)
    assert used.write_units == units
    assert used.schedules == schedules
    assert abs(used.messages - messages) <= 1


@pytest.mark.parametrize(("steps", "functions", "durable"), [(10, 302, 91), (100, 2_570, 831)])
def test_a_chain_elsewhere_costs_what_was_worked_out_from_its_price_page(
    steps: int, functions: float, durable: float
) -> None:
    """USD for a million runs of steps that take no time."""
    used, prices = Usage(steps=steps, bytes=100 * steps), Prices()
    assert used.on_step_functions(prices, 0.5) * 1e6 == pytest.approx(functions, rel=0.01)
    assert used.on_durable_functions(prices, 0.5) * 1e6 == pytest.approx(durable, rel=0.04)

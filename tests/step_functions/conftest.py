"""An API with workflows of several formats, and a boto3 client of it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.api.kit import FAILS, ORDER, QUICK, World
from tests.step_functions.kit import machine_arn, sfn_of

SHOP = """
workflow: shop
Comment: sells
StartAt: Add
States:
  Add: {Type: Pass, Result: {sku: a}, ResultPath: $.line, Next: Big}
  Big: {Type: Choice, Choices: [{Variable: $.amount, NumericGreaterThan: 100, Next: Nap}], Default: Charge}
  Nap: {Type: Wait, Seconds: 60, Next: Charge}
  Charge:
    Type: Task
    Resource: charge
    Parameters: {amount.$: $.amount}
    ResultPath: $.paid
    Retry: [{ErrorEquals: [Busy], IntervalSeconds: 1, MaxAttempts: 2}]
    Catch: [{ErrorEquals: [States.ALL], ResultPath: $.error, Next: Refused}]
    End: true
  Refused: {Type: Fail, Error: Refused, Cause: no luck}
resources: {charge: "python:shop.charge"}
"""
LINES = """
workflow: lines
StartAt: Each
States:
  Each:
    Type: Map
    ItemProcessor: {StartAt: Fetch, States: {Fetch: {Type: Task, Resource: fetch, End: true}}}
    Retry: [{ErrorEquals: [Busy], IntervalSeconds: 1, MaxAttempts: 1}]
    Next: Both
  Both:
    Type: Parallel
    Branches:
      - {StartAt: Left, States: {Left: {Type: Pass, End: true}}}
      - {StartAt: Right, States: {Right: {Type: Succeed}}}
    End: true
resources: {fetch: "python:shop.fetch"}
"""
LABELS = """
workflow: labels
timeline:
  - {name: print, wait: {for: callback, timeout: 2d, heartbeat: 1h}}
"""
ASK = """
workflow: ask
StartAt: Ask
States:
  Ask:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke.waitForTaskToken
    Parameters: {FunctionName: ask, Payload: {token.$: $$.Task.Token}}
    TimeoutSeconds: 600
    HeartbeatSeconds: 60
    ResultPath: $.answer
    Retry: [{ErrorEquals: [Busy], IntervalSeconds: 1, MaxAttempts: 1}]
    Catch: [{ErrorEquals: [OutOfPaper], ResultPath: $.error, Next: Again}]
    End: true
  Again: {Type: Pass, End: true}
resources: {ask: "python:shop.ask"}
"""
FORKED = """
workflow: forked
nodes:
  start: {transitions: [{foreach: "[1, 2]", to: each}]}
  each: {run: "python:shop.charge", timeout: 1m, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}}
"""


@pytest.fixture
def world() -> World:
    made = World(SHOP, LINES, LABELS, ASK, FORKED, ORDER, QUICK, FAILS)
    busy = Outcome(failure=Failure("Busy", "step", "try later"))
    made.steps.functions["python:shop.fetch"] = lambda call: Outcome(call.input) if call.input != "busy" else busy
    return made


@pytest.fixture
def client(world: World) -> Any:
    """Its calls are answered, and what they began is worked off."""
    return sfn_of(world.app, world.drain)


def started(client: Any, workflow: str, given: str = "{}", **more: Any) -> str:
    """The ARN of a new execution."""
    arn: str = client.start_execution(stateMachineArn=machine_arn(workflow), input=given, **more)["executionArn"]
    return arn

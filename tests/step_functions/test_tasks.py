"""Task tokens by boto3: whoever has one ends a callback, or says that the work goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.runtime.steps.port import StepCall
from tests.api.kit import URL, World
from tests.step_functions.conftest import started
from tests.step_functions.kit import written


def token_of(world: World, arn: str, client: Any) -> str:
    """The token of the callback that an execution waits for: what its URL ends in."""
    shown = client.describe_execution(executionArn=arn)
    (run,) = [one for one in world.get("/runs").json["items"] if one["workflow"] == "labels"]
    assert shown["status"] == "RUNNING"
    url: str = world.get(f"/runs/{run['run_id']}").json["waiting_data"]["callback_url"]
    return url.removeprefix(f"{URL}/callbacks/")


@pytest.fixture
def arn(client: Any) -> str:
    return started(client, "labels", name="l-1")


@pytest.fixture
def token(world: World, arn: str, client: Any) -> str:
    return token_of(world, arn, client)


def test_a_success_ends_the_task_with_its_output(client: Any, arn: str, token: str) -> None:
    client.send_task_success(taskToken=token, output='{"labels": 3}')
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], json.loads(shown["output"])) == ("SUCCEEDED", {"labels": 3})


def test_a_failure_ends_the_task_with_its_error(client: Any, arn: str, token: str) -> None:
    client.send_task_failure(taskToken=token, error="OutOfPaper", cause="tray 2")
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], shown["error"], shown["cause"]) == ("FAILED", "OutOfPaper", "tray 2")


def test_a_failure_need_not_say_why(client: Any, arn: str, token: str) -> None:
    client.send_task_failure(taskToken=token)
    assert client.describe_execution(executionArn=arn)["error"] == "States.TaskFailed"


def test_heartbeats_keep_the_task_from_timing_out(world: World, client: Any, arn: str, token: str) -> None:
    for _ in range(3):
        world.advance(50 * 60)
        client.send_task_heartbeat(taskToken=token)
    assert client.describe_execution(executionArn=arn)["status"] == "RUNNING"
    world.advance(2 * 3600)
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], shown["error"]) == ("TIMED_OUT", "States.HeartbeatTimeout")


def test_a_token_of_a_machine_is_one(world: World, client: Any) -> None:
    """Each attempt has another. The state is entered once, and no history has the token."""
    tokens: list[str] = []

    def ask(call: StepCall) -> Outcome:
        tokens.append(call.input["token"])
        return Outcome(None)

    world.steps.functions["python:shop.ask"] = ask
    arn = started(client, "ask", '{"id": 1}')
    client.send_task_failure(taskToken=tokens[-1], error="Busy")
    world.advance(2)
    client.send_task_failure(taskToken=tokens[-1], error="OutOfPaper", cause="tray 2")
    assert len({*tokens}) == 2
    shown = client.describe_execution(executionArn=arn)
    assert json.loads(shown["output"]) == {"id": 1, "error": {"Error": "OutOfPaper", "Cause": "tray 2"}}
    events = client.get_execution_history(executionArn=arn)["events"]
    assert [one["type"] for one in events] == [
        "ExecutionStarted",
        "TaskStateEntered",
        *("TaskScheduled", "TaskFailed") * 2,
        "TaskStateExited",
        "PassStateEntered",
        "PassStateExited",
        "ExecutionSucceeded",
    ]
    assert not any(token in str(events) for token in tokens)


ANSWERS: list[tuple[str, dict[str, str]]] = [
    ("send_task_success", {"output": "{}"}),
    ("send_task_failure", {"error": "E"}),
    ("send_task_heartbeat", {}),
]


@pytest.mark.parametrize(("operation", "more"), ANSWERS)
def test_a_task_is_answered_once(world: World, client: Any, token: str, operation: str, more: dict[str, str]) -> None:
    client.send_task_success(taskToken=token, output="{}")
    before = written(world)
    with pytest.raises(client.exceptions.TaskTimedOut):
        getattr(client, operation)(taskToken=token, **more)
    assert written(world) == before


@pytest.mark.parametrize(("operation", "more"), ANSWERS)
def test_a_token_of_another_make_is_refused(
    world: World, client: Any, token: str, operation: str, more: dict[str, str]
) -> None:
    before = written(world)
    for other in (token[:-1], "AAAA", "a.b", "x" * 900):
        with pytest.raises(client.exceptions.InvalidToken):
            getattr(client, operation)(taskToken=other, **more)
    world.link_keys[:] = [b"another key that signs the links of it"]
    with pytest.raises(client.exceptions.InvalidToken):
        getattr(client, operation)(taskToken=token, **more)
    assert written(world) == before


@pytest.mark.parametrize("output", ["", "{", "NaN", '{"a": 1, "a": 2}'])
def test_an_output_is_json(world: World, client: Any, token: str, output: str) -> None:
    before = written(world)
    with pytest.raises(client.exceptions.InvalidOutput, match="the output"):
        client.send_task_success(taskToken=token, output=output)
    assert written(world) == before


def test_the_task_of_a_stopped_execution_is_over(world: World, client: Any, arn: str, token: str) -> None:
    client.stop_execution(executionArn=arn)
    with pytest.raises(client.exceptions.TaskTimedOut):
        client.send_task_success(taskToken=token, output="{}")

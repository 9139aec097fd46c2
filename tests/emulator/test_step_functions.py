"""The API of Step Functions, deployed: boto3 over HTTP, API Gateway, and the functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.aws.emulation.emulator import ACCOUNT
from tests.emulator.kit import World, until
from tests.step_functions.kit import REGION, machine_arn, sfn


@pytest.fixture
def client(world: World) -> Any:
    return sfn(world.url)


def test_an_execution_runs_to_its_end(world: World, client: Any) -> None:
    given = json.dumps({"name": "ana"})
    arn = client.start_execution(stateMachineArn=machine_arn("greet"), name="g-1", input=given)["executionArn"]
    until(lambda: client.describe_execution(executionArn=arn)["status"] != "RUNNING", "the execution ends")
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], shown["name"], json.loads(shown["input"])) == ("SUCCEEDED", "g-1", {"name": "ana"})
    listed = client.list_executions(stateMachineArn=machine_arn("greet"))["executions"]
    assert arn in [one["executionArn"] for one in listed]
    events = client.get_execution_history(executionArn=arn)["events"]
    assert (events[0]["type"], events[-1]["type"]) == ("ExecutionStarted", "ExecutionSucceeded")
    with pytest.raises(client.exceptions.ExecutionAlreadyExists):
        client.start_execution(stateMachineArn=machine_arn("greet"), name="g-1", input=given)


def test_a_sync_execution_is_answered_with_its_end(client: Any) -> None:
    found = client.start_sync_execution(stateMachineArn=machine_arn("greet"), input=json.dumps({"name": "bea"}))
    assert found["status"] == "SUCCEEDED"


def test_an_arn_has_the_region_that_the_client_signs_for_and_the_account_of_the_api(client: Any) -> None:
    arns = [one["stateMachineArn"] for one in client.list_state_machines()["stateMachines"]]
    assert f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:greet" in arns

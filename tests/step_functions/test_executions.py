"""Executions by boto3: started, found again by their name, shown, listed, stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.errors import PortError
from stepwell.limits import WAIT_ANSWER_SECONDS
from tests.api.kit import World
from tests.step_functions.conftest import started
from tests.step_functions.kit import REGION, WHERE, call_of, event_of, machine_arn, sfn_of, written


def test_an_execution_is_started_and_shown(world: World, client: Any) -> None:
    arn = started(client, "shop", '{"amount": 5}', name="o-1")
    assert arn == f"{WHERE}:execution:shop:o-1"
    shown = client.describe_execution(executionArn=arn)
    assert (shown["name"], shown["status"], shown["stateMachineArn"]) == ("o-1", "SUCCEEDED", machine_arn("shop"))
    assert json.loads(shown["input"]) == {"amount": 5}
    assert json.loads(shown["output"]) == {"amount": 5, "line": {"sku": "a"}, "paid": {"charged": 5}}
    assert shown["startDate"].timestamp() * 1000 == world.clock.now_ms()
    assert shown["stopDate"] >= shown["startDate"]


def test_without_an_input_it_is_an_empty_object(client: Any) -> None:
    arn = client.start_execution(stateMachineArn=machine_arn("quick"))["executionArn"]
    assert client.describe_execution(executionArn=arn)["input"] == "{}"


@pytest.mark.parametrize("workflow", ["shop", "order", "quick"])
def test_a_workflow_of_any_format_is_a_state_machine(client: Any, workflow: str) -> None:
    arn = started(client, workflow, '{"amount": 5}', name="o-1")
    assert client.describe_execution(executionArn=arn)["name"] == "o-1"


def test_the_same_name_and_input_find_the_execution_while_it_runs(world: World, client: Any) -> None:
    first = started(client, "order", '{"amount": 5}', name="o-1")
    assert started(client, "order", '{ "amount": 5 }', name="o-1") == first
    assert len(world.get("/runs").json["items"]) == 1


def test_a_name_that_was_taken_is_refused(world: World, client: Any) -> None:
    """By an execution with another input, or by one that has ended. Another machine may have the same name."""
    started(client, "order", '{"amount": 5}', name="o-1")
    started(client, "quick", '{"amount": 5}', name="o-1")
    before = written(world)
    for workflow, given in (("order", '{"amount": 6}'), ("quick", '{"amount": 5}')):
        with pytest.raises(client.exceptions.ExecutionAlreadyExists):
            started(client, workflow, given, name="o-1")
    assert written(world) == before


def test_a_call_without_a_name_that_boto3_repeats_starts_one_execution(world: World, client: Any) -> None:
    calls: list[Any] = []
    client.meta.events.register_first("before-send.sfn", lambda request, **_: calls.append(event_of(request)))
    arn = started(client, "quick", '{"amount": 5}')
    assert world.send(calls[0]).json["executionArn"] == arn
    assert started(client, "quick", '{"amount": 5}') != arn


def test_executions_are_listed_newest_first_by_status_and_page(world: World, client: Any) -> None:
    for number in range(3):
        started(client, "quick", name=f"q-{number}")
        world.advance(1)
    world.start("quick")
    asked = {"stateMachineArn": machine_arn("quick"), "maxResults": 3}
    page = client.list_executions(**asked)
    assert [one["name"] for one in page["executions"]][1:] == ["q-2", "q-1"]
    following = client.list_executions(**asked, nextToken=page["nextToken"])
    assert [one["name"] for one in following["executions"]] == ["q-0"]
    assert "nextToken" not in following
    for status, count in {"SUCCEEDED": 4, "RUNNING": 0, "FAILED": 0, "PENDING_REDRIVE": 0}.items():
        found = client.list_executions(stateMachineArn=machine_arn("quick"), statusFilter=status)["executions"]
        assert [one["status"] for one in found] == [status] * count
    assert client.list_executions(stateMachineArn=machine_arn("order"))["executions"] == []
    assert client.list_executions(stateMachineArn=machine_arn("quick"), redriveFilter="REDRIVEN")["executions"] == []


def test_a_run_that_was_started_otherwise_has_its_id_for_a_name(world: World, client: Any) -> None:
    run_id = world.start("quick", input={"amount": 5})
    (listed,) = client.list_executions(stateMachineArn=machine_arn("quick"))["executions"]
    assert listed["executionArn"] == f"{WHERE}:execution:quick:{run_id}"
    assert client.describe_execution(executionArn=listed["executionArn"])["status"] == "SUCCEEDED"
    by_id = client.describe_execution(executionArn=run_id)
    assert by_id["executionArn"].split(":")[3:] == [REGION, "123456789012", "execution", "quick", run_id]


def test_an_execution_of_another_machine_is_not_found_by_its_id(world: World, client: Any) -> None:
    run_id = world.start("quick")
    with pytest.raises(client.exceptions.ExecutionDoesNotExist):
        client.describe_execution(executionArn=f"{WHERE}:execution:order:{run_id}")


def test_a_tag_that_a_caller_wrote_makes_no_name(world: World, client: Any) -> None:
    """The run's id tells whether it was started by that name."""
    run_id = world.start("quick", tags={"execution": "o-1"})
    (listed,) = client.list_executions(stateMachineArn=machine_arn("quick"))["executions"]
    assert listed["name"] == run_id


def test_a_stopped_execution_is_aborted_with_its_cause(client: Any) -> None:
    arn = started(client, "order", '{"amount": 5}')
    stopped = client.stop_execution(executionArn=arn, error="Late", cause="the shop is closed")
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], shown["cause"]) == ("ABORTED", "Late: the shop is closed")
    assert shown["stopDate"] == stopped["stopDate"] == client.stop_execution(executionArn=arn)["stopDate"]


def test_a_failed_execution_has_its_error_and_cause(client: Any) -> None:
    shown = client.describe_execution(executionArn=started(client, "fails"))
    assert (shown["status"], shown["error"], shown["cause"]) == ("FAILED", "Broken", "no luck")
    assert "output" not in shown


def test_a_sync_execution_is_answered_with_its_end(world: World) -> None:
    """Each call is an execution of its own, whatever its name."""
    client = sfn_of(world.app)
    found = _sync(world, client, "quick", '{"amount": 5}')
    assert (found["status"], json.loads(found["output"])) == ("SUCCEEDED", {"charged": 5})
    assert found["executionArn"].startswith(f"{WHERE}:express:quick:o-1:")
    assert client.describe_execution(executionArn=found["executionArn"])["name"] == "o-1"
    assert _sync(world, client, "quick", '{"amount": 6}')["executionArn"] != found["executionArn"]


def test_a_sync_execution_that_takes_longer_than_a_call_may_goes_on(world: World) -> None:
    client = sfn_of(world.app)
    before_ms = world.clock.now_ms()
    found = client.start_sync_execution(stateMachineArn=machine_arn("order"), input='{"amount": 5}')
    assert world.clock.now_ms() - before_ms == WAIT_ANSWER_SECONDS * 1000
    assert (found["status"], "output" in found, "stopDate" in found) == ("RUNNING", False, False)
    assert client.describe_execution(executionArn=found["executionArn"])["status"] == "RUNNING"


def _sync(world: World, client: Any, workflow: str, given: str) -> Any:
    """A worker takes the run up while the call waits."""
    waits = world.parts.ports.clock.sleep_ms

    async def work(pause_ms: int) -> None:
        world.drain()
        await waits(pause_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.parts.service, "_pause_until", lambda run_id: work)
        return client.start_sync_execution(stateMachineArn=machine_arn(workflow), name="o-1", input=given)


def test_data_is_left_out_where_the_caller_wants_none(client: Any) -> None:
    arn = started(client, "quick", '{"amount": 5}')
    shown = client.describe_execution(executionArn=arn, includedData="METADATA_ONLY")
    assert not {"input", "output"} & set(shown)
    assert shown["inputDetails"] == {"included": False}


def test_a_large_input_is_left_out_and_said_to_be(world: World, client: Any) -> None:
    large = json.dumps({"text": "a" * 700_000})
    shown = client.describe_execution(executionArn=started(client, "order", large))
    assert "input" not in shown
    assert shown["inputDetails"] == {"included": False}


def test_machines_are_listed_and_described(client: Any) -> None:
    page = client.list_state_machines(maxResults=4)
    following = client.list_state_machines(nextToken=page["nextToken"])
    names = [one["name"] for one in (*page["stateMachines"], *following["stateMachines"])]
    assert names == ["ask", "fails", "forked", "labels", "lines", "order", "quick", "shop"]
    arn = page["stateMachines"][1]["stateMachineArn"]
    assert arn == machine_arn("fails")
    shown = client.describe_state_machine(stateMachineArn=machine_arn("shop"))
    written = json.loads(shown["definition"])
    assert (written["StartAt"], written["Comment"], set(written)) == ("Add", "sells", {"StartAt", "Comment", "States"})
    assert shown["status"] == "ACTIVE"
    assert json.loads(client.describe_state_machine(stateMachineArn=arn)["definition"])["workflow"] == "fails"


def test_an_alias_behind_the_arn_is_a_version(world: World, client: Any) -> None:
    assert world.post("/workflows/quick/aliases", {"alias": "live"}).status == 200
    arn = client.start_execution(stateMachineArn=f"{machine_arn('quick')}:live", name="o-1")["executionArn"]
    assert arn == f"{WHERE}:execution:quick:o-1"
    shown = client.describe_state_machine(stateMachineArn=f"{machine_arn('quick')}:live")
    assert shown["revisionId"] == world.parts.catalog.current["quick"].version
    with pytest.raises(client.exceptions.StateMachineDoesNotExist):
        client.start_execution(stateMachineArn=f"{machine_arn('quick')}:dead")


REFUSED = [
    ("start_execution", {"stateMachineArn": "quick"}, "InvalidArn"),
    ("start_execution", {"stateMachineArn": f"{WHERE}:activity:quick"}, "InvalidArn"),
    ("start_execution", {"stateMachineArn": machine_arn("nothing")}, "StateMachineDoesNotExist"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "name": "a b"}, "InvalidName"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "name": "x" * 81}, "InvalidName"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "name": "a:b"}, "InvalidName"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "input": "{"}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "input": ""}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "input": "NaN"}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "input": '"\\ud800"'}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("quick"), "input": "[" * 99_999}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("order"), "input": '{"amount": "x"}'}, "InvalidExecutionInput"),
    ("start_execution", {"stateMachineArn": machine_arn("stepwell:batch")}, "StateMachineDoesNotExist"),
    ("start_sync_execution", {"stateMachineArn": machine_arn("nothing")}, "StateMachineDoesNotExist"),
    ("start_execution", {"stateMachineArn": machine_arn("q" * 3_000)}, "InvalidArn"),
    ("describe_execution", {"executionArn": f"{WHERE}:execution:{'q' * 3_000}:o-1"}, "InvalidArn"),
    ("describe_execution", {"executionArn": "o 1"}, "InvalidArn"),
    ("describe_execution", {"executionArn": f"{WHERE}:execution:quick:o-1"}, "ExecutionDoesNotExist"),
    ("describe_execution", {"executionArn": f"{WHERE}:execution:quick"}, "ExecutionDoesNotExist"),
    ("describe_execution", {"executionArn": f"{WHERE}:express:quick:o-1"}, "ExecutionDoesNotExist"),
    ("get_execution_history", {"executionArn": f"{WHERE}:execution:quick:o-1"}, "ExecutionDoesNotExist"),
    ("stop_execution", {"executionArn": f"{WHERE}:execution:quick:o-1"}, "ExecutionDoesNotExist"),
    ("list_executions", {}, "ValidationException"),
    ("list_executions", {"mapRunArn": f"{WHERE}:mapRun:quick/a:b"}, "ValidationException"),
    ("list_executions", {"stateMachineArn": machine_arn("nothing")}, "StateMachineDoesNotExist"),
    ("list_executions", {"stateMachineArn": machine_arn("quick"), "nextToken": "made-up"}, "InvalidToken"),
    ("describe_state_machine", {"stateMachineArn": machine_arn("nothing")}, "StateMachineDoesNotExist"),
    ("create_activity", {"name": "a"}, "UnknownOperationException"),
]


@pytest.mark.parametrize(("operation", "asked", "kind"), REFUSED)
def test_a_refusal_has_the_type_of_step_functions_and_writes_nothing(
    world: World, client: Any, operation: str, asked: dict[str, Any], kind: str
) -> None:
    before = written(world)
    with pytest.raises(client.exceptions.ClientError) as refused:
        getattr(client, operation)(**asked)
    error = refused.value.response
    assert (error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"]) == (400, kind)
    assert error["Error"]["Message"]
    assert written(world) == before


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("", "{}", "UnknownOperationException"),
        ("StartExecution", "{}", "UnknownOperationException"),
        ("DynamoDB_20120810.PutItem", "{}", "UnknownOperationException"),
        ("AWSStepFunctions.StartExecution", "{", "SerializationException"),
        ("AWSStepFunctions.StartExecution", b"\xff\xfe", "SerializationException"),
        ("AWSStepFunctions.StartExecution", "[]", "ValidationException"),
        ("AWSStepFunctions.StartExecution", "", "ValidationException"),
        ("AWSStepFunctions.StartExecution", json.dumps({"stateMachineArn": 7}), "ValidationException"),
        ("AWSStepFunctions.StartExecution", json.dumps({"stateMachineArn": machine_arn("quick"), "Name": "a"}),
         "ValidationException"),
        ("AWSStepFunctions.ListExecutions", json.dumps({"stateMachineArn": machine_arn("quick"), "maxResults": -1}),
         "ValidationException"),
        ("AWSStepFunctions.StartExecution", "[" * 100_000, "ValidationException"),
        ("AWSStepFunctions.StartExecution", "x" * 2_000_001, "ValidationException"),
    ],
)  # fmt: skip
def test_what_no_client_would_send_is_refused_likewise(world: World, target: str, body: str | bytes, kind: str) -> None:
    before = written(world)
    reply = world.send(call_of(target, body))
    assert (reply.status, reply.json["__type"], reply.headers["x-amzn-ErrorType"]) == (400, kind, kind)
    assert reply.json["message"]
    assert written(world) == before


def test_a_store_that_does_not_answer_is_told_so_that_boto3_asks_again(
    world: World, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise PortError("the table is gone")

    monkeypatch.setattr(world.store, "get_run", broken)
    with pytest.raises(client.exceptions.ClientError) as refused:
        started(client, "quick")
    assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert "the table is gone" not in str(refused.value)

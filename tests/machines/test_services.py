"""Tasks of state machines that call services: DynamoDB, SQS, SNS and EventBridge, emulated, in all homes of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.aws.services.calls import ServiceCalls
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.services import ServiceSteps
from stepwell.testing.kit import Stepwell
from tests.contract.emulated import Cloud, answer
from tests.machines.conftest import Begin, Machine, advance, machine, task

OF = "arn:aws:states:::"
KEY = {"id": {"S.$": "$.id"}}
SCHEMA: Machine = {
    "TableName": "orders",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def calls(cloud: Cloud) -> Calls:
    return Calls(services=ServiceSteps(ServiceCalls(cloud.service)))


@pytest.fixture
def table(cloud: Cloud) -> Iterator[Any]:
    client = cloud.service("dynamodb")
    client.create_table(**SCHEMA)
    yield client
    client.delete_table(TableName="orders")


def on_table(action: str, service: str = "dynamodb", **more: Any) -> Machine:
    fields = {"Parameters": {"TableName": "orders", **more.pop("Parameters", {"Key": KEY})}, **more}
    return task(f"{OF}{service}:{action}", **fields)


def test_items_are_put_updated_read_and_deleted(begin: Begin, table: Any) -> None:
    states = machine(
        Put=on_table("putItem", Parameters={"Item": {**KEY, "n": {"N.$": "$.total"}}}, ResultPath=None, Next="Add"),
        Add=on_table("updateItem", ResultPath=None, Next="Get", Parameters={
            "Key": KEY, "UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}),
        Get=on_table("getItem", ResultPath="$.kept", Next="Delete"),
        Delete=on_table("deleteItem", Parameters={"Key": KEY, "ReturnValues": "ALL_OLD"}, ResultPath="$.deleted"),
    )  # fmt: skip
    run = begin(states, {"id": "o1", "total": 20})
    item = {"id": {"S": "o1"}, "n": {"N": "21"}}
    assert (run.status, run.result) == ("completed", {"id": "o1", "total": 20, "kept": {"Item": item},
                                                      "deleted": {"Attributes": item}})  # fmt: skip
    assert table.scan(TableName="orders")["Items"] == []


def test_jsonata_makes_parameters_and_reads_results(begin: Begin, table: Any) -> None:
    table.put_item(TableName="orders", Item={"id": {"S": "o1"}, "open": {"BOOL": True}})
    arguments = {"TableName": "orders", "Key": {"id": {"S": "{% $states.input.id %}"}}}
    get = task(f"{OF}aws-sdk:dynamodb:getItem", Arguments=arguments, Output="{% $states.result.Item.open.Bool %}")
    assert begin({"QueryLanguage": "JSONata", **machine(A=get)}, {"id": "o1"}).result is True


@pytest.mark.parametrize(
    ("service", "error"),
    [
        ("dynamodb", "DynamoDB.ConditionalCheckFailedException"),
        ("dynamodb", "DynamoDB.AmazonDynamoDBException"),
        ("aws-sdk:dynamodb", "DynamoDb.ConditionalCheckFailedException"),
        ("aws-sdk:dynamodb", "DynamoDb.DynamoDbException"),
        ("aws-sdk:dynamodb", "States.TaskFailed"),
    ],
)
def test_an_error_of_a_service_is_caught_by_its_name(begin: Begin, table: Any, service: str, error: str) -> None:
    put = on_table("putItem", service, Parameters={"Item": KEY, "ConditionExpression": "attribute_exists(id)"},
                   Catch=[{"ErrorEquals": [error], "Next": "Caught"}])  # fmt: skip
    run = begin(machine(A=put, Caught={"Type": "Pass", "End": True}), {"id": "o1"})
    assert run.status == "completed"
    assert run.result["Error"].endswith(".ConditionalCheckFailedException")
    assert "The conditional request failed" in run.result["Cause"]


def test_a_service_that_is_busy_is_called_again_as_retry_says(begin: Begin, cloud: Cloud, table: Any) -> None:
    refusals = iter(range(2))
    busy = json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"})
    cloud.before = lambda operation, _: answer(400, busy) if operation == "GetItem" and next(refusals, None) in (
        0, 1) else None  # fmt: skip
    tried = [{"ErrorEquals": ["DynamoDB.ProvisionedThroughputExceededException"], "IntervalSeconds": 1}]
    run = begin(machine(A=on_table("getItem", Retry=tried)), {"id": "o1"})
    assert run.steps["A"].attempts == 1
    advance(advance(run, "1s"), "2s")
    assert (run.status, run.steps["A"].attempts, run.result) == ("completed", 3, {})


def test_a_message_is_sent_to_a_queue_as_json(begin: Begin, cloud: Cloud) -> None:
    queue = cloud.service("sqs")
    url = queue.create_queue(QueueName="orders")["QueueUrl"]
    send = task(f"{OF}sqs:sendMessage", Parameters={"QueueUrl": url, "MessageBody": {"order.$": "$.id"}})
    run = begin(machine(A=send), {"id": "o1"})
    assert run.result.keys() == {"MessageId", "MD5OfMessageBody"}
    (message,) = queue.receive_message(QueueUrl=url)["Messages"]
    assert (json.loads(message["Body"]), message["MessageId"]) == ({"order": "o1"}, run.result["MessageId"])


def test_a_message_with_a_token_waits_for_its_callback(begin: Begin, cloud: Cloud) -> None:
    queue = cloud.service("sqs")
    url = queue.create_queue(QueueName="inspections")["QueueUrl"]
    body = {"order.$": "$.id", "token.$": "$$.Task.Token"}
    run = begin(
        machine(A=task(f"{OF}sqs:sendMessage.waitForTaskToken", Parameters={"QueueUrl": url, "MessageBody": body})),
        {"id": "o1"},
    )
    assert (run.status, run.waiting_for) == ("waiting", "callback")
    (message,) = queue.receive_message(QueueUrl=url)["Messages"]
    run._kit.callback(json.loads(message["Body"])["token"], {"fine": True})
    assert run.result == {"fine": True}


def test_a_queue_that_is_not_there_is_an_error_of_sqs(begin: Begin, cloud: Cloud) -> None:
    url = "https://sqs.us-east-1.amazonaws.com/111111111111/gone"
    send = task(f"{OF}aws-sdk:sqs:sendMessage", Parameters={"QueueUrl": url, "MessageBody": "x"})
    error = begin(machine(A=send), {}).error
    assert error is not None
    assert (error["type"], error["category"]) == ("Sqs.QueueDoesNotExistException", "step")


def test_a_topic_gets_what_is_published(begin: Begin, cloud: Cloud) -> None:
    topic = cloud.service("sns").create_topic(Name="orders")["TopicArn"]
    publish = task(f"{OF}sns:publish", Parameters={"TopicArn": topic, "Message": {"order.$": "$.id"}})
    assert begin(machine(A=publish), {"id": "o1"}).result.keys() == {"MessageId"}


def test_events_are_put_on_a_bus(begin: Begin, cloud: Cloud) -> None:
    entry = {"Detail": {"order.$": "$.id"}, "DetailType": "Ordered", "Source": "shop"}
    put = task(f"{OF}events:putEvents", Parameters={"Entries": [entry]})
    result = begin(machine(A=put), {"id": "o1"}).result
    assert (result["FailedEntryCount"], [*result["Entries"][0]]) == (0, ["EventId"])


def test_an_event_that_the_bus_refuses_is_a_failed_entry(begin: Begin, cloud: Cloud) -> None:
    refused = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure", "ErrorMessage": "no"}]}
    cloud.before = lambda operation, _: answer(200, json.dumps(refused)) if operation == "PutEvents" else None
    put = task(f"{OF}events:putEvents", Parameters={"Entries": [{"Detail": {}, "DetailType": "x", "Source": "s"}]})
    error = begin(machine(A=put), {}).error
    assert error is not None
    assert (error["type"], "InternalFailure: no" in error["message"]) == ("EventBridge.FailedEntry", True)


def test_a_detached_run_is_started_and_goes_its_own_way(begin: Begin) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
    states = machine(A=task(f"{OF}states:startExecution", Parameters={"StateMachineArn": arn, "Input.$": "$"}))
    run = begin(states, {"number": 1}, child=machine(W={"Type": "Wait", "Seconds": 60, "Next": "B"}, B=task("plus")))
    assert (run.status, run.result.keys()) == ("completed", {"ExecutionArn", "StartDate"})
    (child,) = run._kit.runs("child")
    assert run.result["ExecutionArn"] == f"arn:aws:states:us-east-1:123456789012:execution:child:{child.id}"
    advance(run, "60s")
    assert child.status == "completed"


def test_what_runs_in_place_of_a_detached_run_answers_itself(stepwell: Stepwell) -> None:
    states = machine(A=task(f"{OF}states:startExecution", Parameters={"StateMachineArn": "child", "Input": {"x": 1}}))
    stepwell.define(json.dumps({"workflow": "w", **states, "resources": {"child": "python:work.child"}}))
    mock = stepwell.mock("A", returns={"ExecutionArn": "mine"})
    assert (stepwell.start("w", {}).result, mock.calls) == ({"ExecutionArn": "mine"}, [{"x": 1}])


def test_parameters_that_a_service_does_not_know_are_an_error_of_the_machine(begin: Begin, cloud: Cloud) -> None:
    put = on_table("putItem", Parameters={"Itme": {}}, Catch=[{"ErrorEquals": ["States.Runtime"], "Next": "Caught"}])
    run = begin(machine(A=put, Caught={"Type": "Pass", "End": True}), {})
    assert (run.status, run.result["Error"]) == ("completed", "States.Runtime")
    assert "Itme" in run.result["Cause"]


def test_a_test_mocks_a_call_by_its_state_or_its_resource_and_makes_none(stepwell: Stepwell) -> None:
    resource = f"{OF}sqs:sendMessage"
    send = task(resource, Parameters={"QueueUrl": "q", "MessageBody.$": "$.id"})
    stepwell.define(json.dumps({"workflow": "w", **machine(A={**send, "ResultPath": "$.sent"})}))
    mock = stepwell.mock(resource, returns={"MessageId": "m"}, times=1)
    assert stepwell.start("w", {"id": "o1"}).result == {"id": "o1", "sent": {"MessageId": "m"}}
    assert mock.calls == [{"QueueUrl": "q", "MessageBody": "o1"}]
    error = stepwell.start("w", {"id": "o1"}).error
    assert error is not None
    assert (error["type"], "mock the state or its resource" in error["message"]) == ("aws_not_here", True)

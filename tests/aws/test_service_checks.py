"""What `check` says of the calls of services in state machines, from the models that botocore brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.aws.services import checks as service_checks
from stepwell.aws.services.checks import check_services
from stepwell.aws.services.models import NO_STREAMS, find_service, java_prefix
from stepwell.aws.services.names import java_name

OF = "arn:aws:states:::"


def told(folder: Path, call: str, given: Any = None, field: str = "Parameters") -> list[tuple[str, str, str]]:
    """The problems of a machine with one such task: code, place and hint."""
    state = {"Type": "Task", "Resource": f"{OF}{call}", field: {} if given is None else given, "End": True}
    (folder / "m.asl.json").write_text(json.dumps({"StartAt": "A", "States": {"A": state}}, indent=1))
    return [(one.code, one.path, one.hint) for one in check_services(folder)]


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("dynamodb:putItem", {"TableName": "t", "Item.$": "$.item"}),
        ("dynamodb:getItem", {"TableName.$": "$.t", "Key": {"id": {"S.$": "$.id"}, "no": {"Nul": True}}}),
        ("aws-sdk:sqs:sendMessage", {"QueueUrl": "u", "MessageBody": "x",
                                     "MessageAttributes": {"a": {"DataType": "String", "StringValue": "v"}}}),
        ("aws-sdk:rds:describeDBInstances", {"DbInstanceIdentifier": "x"}),
        ("aws-sdk:ecs:runTask", {"TaskDefinition": "t", "Overrides": {"ContainerOverrides": [{"Name": "c"}]}}),
        ("aws-sdk:cloudwatchlogs:putLogEvents", {"LogGroupName": "g", "LogStreamName": "s", "LogEvents.$": "$"}),
        ("sqs:sendMessage.waitForTaskToken", {"QueueUrl": "u", "MessageBody": {"token.$": "$$.Task.Token"}}),
        ("lambda:invoke", {"FunctionName": "f", "Payload.$": "$"}),
        ("states:startExecution.sync:2", {"StateMachineArn": "m", "Input": {"any": 1}}),
        ("http:invoke", {"ApiEndpoint.$": "$.url", "Method": "GET", "Headers": {"x": "y"}}),
    ],
)  # fmt: skip
def test_calls_that_the_services_have_are_right(tmp_path: Path, call: str, given: Any) -> None:
    assert told(tmp_path, call, given) == []


@pytest.mark.parametrize(
    ("call", "given", "problems"),
    [
        ("aws-sdk:dinamodb:putItem", {}, [("unknown_service", "/Resource", "did you mean `dynamodb`?")]),
        ("aws-sdk:bedrockruntime:converseStream", {"ModelId": "m"},
         [("unsupported_resource", "/Resource", NO_STREAMS)]),
        ("aws-sdk:dynamodb:putItm", {}, [("unknown_action", "/Resource", "did you mean `putItem`?")]),
        ("dynamodb:getItem", {"TableNam": "t", "Key": {}},
         [("missing_parameter", "/Parameters", "add TableName"),
          ("unknown_parameter", "/Parameters/TableNam", "did you mean `TableName`?")]),
        ("dynamodb:getItem", {"TableName": "t", "Key": {"id": {"SS": [], "X": 1}}},
         [("unknown_parameter", "/Parameters/Key/id/X",
           "known: S, N, B, SS, NS, BS, M, L, NULL, BOOL")]),
        ("events:putEvents", {"Entries": [{"Source": "s", "DetailTyp.$": "$.x"}]},
         [("unknown_parameter", "/Parameters/Entries/0/DetailTyp.$", "did you mean `DetailType`?")]),
        ("sqs:sendMessage.waitForTaskToken", {"QueueUrl": "u", "MesageBody": "x"},
         [("missing_parameter", "/Parameters", "add MessageBody"),
          ("unknown_parameter", "/Parameters/MesageBody", "did you mean `MessageBody`?")]),
        ("lambda:invoke", {"FunctionName": "f", "Paylod": 1},
         [("unknown_parameter", "/Parameters/Paylod", "did you mean `Payload`?")]),
        ("states:startExecution", {"StateMachineArn": "m", "Inputs": 1},
         [("unknown_parameter", "/Parameters/Inputs", "did you mean `Input`?")]),
        ("http:invoke", {"ApiEndpoint": "https://a.example.com", "Header": {}},
         [("missing_parameter", "/Parameters", "add Method"),
          ("unknown_parameter", "/Parameters/Header", "did you mean `Headers`?")]),
    ],
)  # fmt: skip
def test_a_call_that_a_service_does_not_have_is_told_at_its_place(
    tmp_path: Path, call: str, given: Any, problems: list[tuple[str, str, str]]
) -> None:
    found = [(code, path.removeprefix("/States/A"), hint) for code, path, hint in told(tmp_path, call, given)]
    assert found == problems


@pytest.mark.parametrize(
    ("call", "given", "problems"),
    [
        ("s3:getObject", {"Bucket": "b", "Key.$": "$.k", "VersionId": "1"}, []),
        ("s3:listObjectsV2", {"Bucket": "b", "Prefix": "p"}, []),
        ("s3:getObject", {"Bucket": "b", "Kee": "k"},
         [("missing_parameter", "", "add Key"), ("unknown_parameter", "/Kee", "did you mean `Key`?")]),
        ("s3:putObject", {"Bucket": "b", "Prefix.$": "$.p"}, []),
        ("s3:putObject", {"Prefx": "p"},
         [("missing_parameter", "", "add Bucket"), ("unknown_parameter", "/Prefx", "did you mean `Prefix`?")]),
    ],
)  # fmt: skip
def test_what_a_map_reads_and_writes_is_checked(
    tmp_path: Path, call: str, given: Any, problems: list[tuple[str, str, str]]
) -> None:
    inner = {"StartAt": "B", "States": {"B": {"Type": "Task", "Resource": f"{OF}sqs:sendMesage", "End": True}}}
    field = "ResultWriter" if call == "s3:putObject" else "ItemReader"
    state = {
        "Type": "Map",
        field: {"Resource": f"{OF}{call}", "Parameters": given},
        "ItemProcessor": inner,
        "End": True,
    }
    (tmp_path / "m.asl.json").write_text(json.dumps({"StartAt": "A", "States": {"A": state}}))
    found = [(one.code, one.path.removeprefix(f"/States/A/{field}/Parameters"), one.hint)
             for one in check_services(tmp_path)]  # fmt: skip
    assert found == problems


def test_a_problem_has_its_line(tmp_path: Path) -> None:
    told(tmp_path, "dynamodb:getItem", {"TableName": "t", "Key": {}, "Kee": 1})
    (problem,) = check_services(tmp_path / "m.asl.json")
    assert (problem.file, problem.line) == (str(tmp_path / "m.asl.json"), 10)


def test_what_resources_map_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "resources.yaml").write_text('resources: {"arn:aws:states:::dynamodb:*": python:m.f}')
    assert told(tmp_path, "dynamodb:getItem", {"Nothing": 1}) == []


def test_arguments_of_jsonata_are_checked_as_far_as_they_are_written(tmp_path: Path) -> None:
    assert told(tmp_path, "dynamodb:getItem", "{% $states.input %}", "Arguments") == []
    given = {"TableName": "{% $t %}", "Key": "{% $k %}", "Consistent": True}
    assert [code for code, *_ in told(tmp_path, "dynamodb:getItem", given, "Arguments")] == ["unknown_parameter"]


def test_without_boto3_services_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_checks, "find_spec", lambda name: None)
    assert told(tmp_path, "aws-sdk:none:none") == []


@pytest.mark.parametrize(
    ("service", "name", "prefix"),
    [
        ("dynamodb", "dynamodb", "DynamoDb"),
        ("sqs", "sqs", "Sqs"),
        ("eventbridge", "events", "EventBridge"),
        ("sfn", "stepfunctions", "Sfn"),
        ("cloudwatchlogs", "logs", "CloudWatchLogs"),
        ("secretsmanager", "secretsmanager", "SecretsManager"),
        ("bedrockruntime", "bedrock-runtime", "BedrockRuntime"),
        ("rdsdata", "rds-data", "RdsData"),
    ],
)
def test_services_have_the_names_of_the_sdk_for_java(service: str, name: str, prefix: str) -> None:
    assert (find_service(service), java_prefix(service)) == (name, prefix)


@pytest.mark.parametrize(
    ("name", "java"),
    [("MD5OfMessageBody", "Md5OfMessageBody"), ("ETag", "ETag"), ("DBInstances", "DbInstances"), ("NULL", "Nul"),
     ("taskArn", "TaskArn"), ("TableName", "TableName"), ("SSEKMSKeyId", "SsekmsKeyId"), ("BOOL", "Bool")],
)  # fmt: skip
def test_members_have_the_names_of_the_sdk_for_java(name: str, java: str) -> None:
    assert java_name(name) == java

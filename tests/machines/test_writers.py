"""ResultWriter: a Map that writes the results of its items to S3, emulated, in all homes of runs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stepwell.aws.services.calls import ServiceCalls
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.services import ServiceSteps
from stepwell.testing.kit import Stepwell
from tests.contract.emulated import Cloud, answer
from tests.machines.conftest import Begin, Machine, Put, advance, machine, task
from tests.machines.test_readers import reading
from tests.machines.test_shown_nodes import got, history

WRITE = "arn:aws:states:::s3:putObject"
FAILED = "States.ResultWriterFailed"
PASS: Machine = {"Type": "Pass", "End": True}
ODD = {"B": {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericEquals": 2, "Next": "F"}], "Default": "G"},
       "F": {"Type": "Fail", "Error": "Boom", "Cause": "two"},
       "G": {"Type": "Pass", "OutputPath": "$.n", "End": True}}  # fmt: skip
GIVEN = {"list": [1, 2, 3], "to": "out"}


@pytest.fixture
def calls(cloud: Cloud) -> Calls:
    return Calls(services=ServiceSteps(ServiceCalls(cloud.service)))


def writing(states: Machine | None = None, *, config: Machine | None = None, **fields: Any) -> Machine:
    """A machine with one Map, `A`, which writes to `data/out/`."""
    inner = {**machine(**(states or {"B": PASS})), "ProcessorConfig": {"Mode": "DISTRIBUTED"}}
    writer = {"Resource": WRITE, "Parameters": {"Bucket": "data", "Prefix.$": "$.to"}}
    if config is not None:
        writer["WriterConfig"] = config
    last = {} if "Next" in fields else {"End": True}
    own = {"ItemsPath": "$.list", "ItemSelector": {"n.$": "$$.Map.Item.Value"}, "ResultWriter": writer}
    return machine(A={"Type": "Map", "ItemProcessor": inner, **own, **last, **fields})


def written(cloud: Cloud, details: Machine) -> tuple[Machine, dict[str, Any]]:
    """The manifest, and the results by the name of their file."""
    s3 = cloud.service("s3")

    def read(key: str) -> Any:
        return json.loads(s3.get_object(Bucket=details["Bucket"], Key=key)["Body"].read())

    manifest = read(details["Key"])
    files = [one for listed in manifest["ResultFiles"].values() for one in listed]
    sizes = {one["Key"]: one["Size"] for one in s3.list_objects_v2(Bucket=details["Bucket"])["Contents"]}
    assert all(sizes[one["Key"]] == one["Size"] for one in files)
    return manifest, {one["Key"].rpartition("/")[2]: read(one["Key"]) for one in files}


def test_results_are_written_as_executions_and_the_map_tells_where(begin: Begin, put: Put, cloud: Cloud) -> None:
    run = begin(writing(ODD, ToleratedFailureCount=1), GIVEN)
    arn, details = run.result["MapRunArn"], run.result["ResultWriterDetails"]
    id_ = arn.rpartition(":")[2]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", id_)
    assert (arn, details) == (
        f"arn:aws:states:::mapRun:m/A:{id_}",
        {"Bucket": "data", "Key": f"out/{id_}/manifest.json"},
    )
    manifest, files = written(cloud, details)
    assert (manifest["DestinationBucket"], manifest["MapRunArn"]) == ("data", arn)
    assert {name: len(of) for name, of in manifest["ResultFiles"].items()} == {
        "FAILED": 1,
        "PENDING": 0,
        "SUCCEEDED": 1,
    }
    told = {
        "ExecutionArn": f"arn:aws:states:::execution:m/A:{id_}.0",
        "Input": '{"n":1}',
        "InputDetails": {"Included": True},
        "Name": f"{id_}.0",
        "Output": "1",
        "OutputDetails": {"Included": True},
        "RedriveCount": 0,
        "RedriveStatus": "NOT_REDRIVABLE",
        "RedriveStatusReason": "Execution is SUCCEEDED and cannot be redriven",
        "StateMachineArn": "arn:aws:states:::stateMachine:m/A",
        "Status": "SUCCEEDED",
    }
    assert files["SUCCEEDED_0.json"][0] == told
    assert [one["Output"] for one in files["SUCCEEDED_0.json"]] == ["1", "3"]
    (bad,) = files["FAILED_0.json"]
    assert (bad["Input"], bad["Status"], bad["Error"], bad["Cause"]) == ('{"n":2}', "FAILED", "Boom", "two")
    assert "Output" not in bad


@pytest.mark.parametrize(
    ("transformation", "results"), [("COMPACT", [[1, 1], {"n": 2}, [3, 3]]), ("FLATTEN", [1, 1, {"n": 2}, 3, 3])]
)
def test_outputs_may_be_written_alone(
    begin: Begin,
    put: Put,
    cloud: Cloud,
    transformation: str,
    results: list[Any],
) -> None:
    pair = {"Type": "Pass", "Parameters": {"a.$": "States.Array($.n, $.n)"}, "OutputPath": "$.a", "End": True}
    states = {**ODD, "F": {"Type": "Pass", "End": True}, "G": pair}
    config = {"Transformation": transformation, "OutputType": "JSON"}
    run = begin(writing(states, config=config, Label="each"), GIVEN)
    manifest, files = written(cloud, run.result["ResultWriterDetails"])
    assert files == {"SUCCEEDED_0.json": results}
    assert manifest["MapRunArn"].startswith("arn:aws:states:::mapRun:m/each:")


@pytest.mark.parametrize(
    ("transformation", "lines"), [("COMPACT", ["[1,1]", "[3,3]"]), ("FLATTEN", ["1", "1", "3", "3"])]
)
def test_results_may_be_written_a_line_each(
    begin: Begin, put: Put, cloud: Cloud, transformation: str, lines: list[str]
) -> None:
    pair = {"Type": "Pass", "Parameters": {"a.$": "States.Array($.n, $.n)"}, "OutputPath": "$.a", "End": True}
    config = {"Transformation": transformation, "OutputType": "JSONL"}
    run = begin(writing({**ODD, "G": pair}, config=config, ToleratedFailureCount=1), GIVEN)
    s3, details = cloud.service("s3"), run.result["ResultWriterDetails"]
    manifest = json.loads(s3.get_object(**details)["Body"].read())
    (good,), (bad,) = (manifest["ResultFiles"][name] for name in ("SUCCEEDED", "FAILED"))
    assert [one["Key"].rpartition("/")[2] for one in (good, bad)] == ["SUCCEEDED_0.jsonl", "FAILED_0.jsonl"]
    text = s3.get_object(Bucket="data", Key=good["Key"])["Body"].read().decode()
    assert (text, good["Size"]) == ("".join(f"{line}\n" for line in lines), len(text))
    (failed,) = s3.get_object(Bucket="data", Key=bad["Key"])["Body"].read().decode().splitlines()
    assert json.loads(failed)["Error"] == "Boom"


def test_jsonata_says_where_and_makes_the_output(begin: Begin, put: Put, cloud: Cloud) -> None:
    writer = {"Resource": WRITE, "Arguments": {"Bucket": "data", "Prefix": "{% $states.input.to & '/' %}"}}
    inner = {**machine(B=PASS), "ProcessorConfig": {"Mode": "DISTRIBUTED"}}
    state = {"Type": "Map", "Items": "{% $states.input.list %}", "ItemProcessor": inner, "ResultWriter": writer,
             "Output": "{% $states.result.ResultWriterDetails %}", "End": True}  # fmt: skip
    run = begin({"QueryLanguage": "JSONata", **machine(A=state)}, {**GIVEN, "list": []})
    assert re.fullmatch(r"out/[0-9a-f-]{36}/manifest\.json", run.result["Key"])
    manifest, files = written(cloud, run.result)
    assert (manifest["ResultFiles"], files) == ({"FAILED": [], "PENDING": [], "SUCCEEDED": []}, {})


def test_a_map_reads_its_items_and_writes_its_results(begin: Begin, put: Put, cloud: Cloud) -> None:
    put("in.json", '["a", "é"]')
    writer = {"Resource": WRITE, "Parameters": {"Bucket": "data"}}
    written_ = reading(ResultWriter=writer, ResultPath="$.out", Next="Y")
    written_["States"]["Y"] = {"Type": "Wait", "Seconds": 60, "End": True}
    run = begin(written_, GIVEN)
    assert got(run, f"/runs/{run.id}")["state"] == {}
    scopes = [one["record"].get("writes", {}) for one in run.export() if one.get("token") == "0"]
    assert [scopes[-2]["$read"], scopes[-2]["$kept"]] == [None, None]
    advance(run, "60s")
    assert {name: run.result[name] for name in GIVEN} == GIVEN
    _, files = written(cloud, run.result["out"]["ResultWriterDetails"])
    assert [json.loads(one["Output"]) for one in files["SUCCEEDED_0.json"]] == ["a", "é"]


def test_a_retry_runs_the_items_again_and_writes_a_run_of_its_own(begin: Begin, put: Put, cloud: Cloud) -> None:
    refusals = iter([answer(503, "<Error><Code>SlowDown</Code></Error>")])
    cloud.before = lambda operation, _: next(refusals, None) if operation == "PutObject" else None
    tried = [{"ErrorEquals": [FAILED], "IntervalSeconds": 5, "BackoffRate": 1}]
    run = begin(writing(Retry=tried), GIVEN)
    assert run.status == "waiting"
    assert advance(run, "5s").status == "completed"
    assert got(run, f"/runs/{run.id}?as=asl")["states_entered"] == ["A", *"BBBBBB"]


def test_what_cannot_be_written_is_an_error_that_the_map_catches(begin: Begin, cloud: Cloud) -> None:
    caught = writing(Catch=[{"ErrorEquals": [FAILED], "ResultPath": "$.error", "Next": "Z"}])
    caught["States"]["Z"] = PASS
    run = begin(caught, GIVEN)
    assert (run.status, run.result["error"]["Error"], run.result["to"]) == ("completed", FAILED, "out")
    assert run.result["error"]["Cause"].startswith("S3.NoSuchBucketException: s3:putObject: ")
    assert got(run, f"/runs/{run.id}?as=asl")["states_entered"] == ["A", *"BBB", "Z"]
    run = begin(writing(), {**GIVEN, "to": 7})
    error = got(run, f"/runs/{run.id}")["error"]
    assert (error["type"], error["step"]) == ("result_writer_failed", "A")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"ToleratedFailureCount": 0}, ("join_unmet", "A", "1 of 3 branches failed; 0 may")),
        ({}, ("Boom", "F", "two")),
    ],
)
def test_a_map_with_too_many_failures_writes_what_came_and_fails(
    begin: Begin, put: Put, cloud: Cloud, fields: Machine, error: tuple[str, ...]
) -> None:
    run = begin(writing({**ODD, "G": {"Type": "Pass", "End": True}}, MaxConcurrency=1, **fields), GIVEN)
    found = got(run, f"/runs/{run.id}")["error"]
    assert (run.status, found["type"], found["step"], found["message"]) == ("failed", *error)
    (key,) = (
        one["Key"] for one in cloud.service("s3").list_objects_v2(Bucket="data")["Contents"] if "manif" in one["Key"]
    )
    manifest, files = written(cloud, {"Bucket": "data", "Key": key})
    assert {name: len(of) for name, of in manifest["ResultFiles"].items()} == {
        "FAILED": 1,
        "PENDING": 0,
        "SUCCEEDED": 1,
    }
    assert [one["Input"] for one in files["SUCCEEDED_0.json"]] == ['{"n":1}']
    assert [(one["Input"], one["Error"]) for one in files["FAILED_0.json"]] == [('{"n":2}', "Boom")]


def test_a_map_takes_its_own_failure_once_it_has_written(begin: Begin, put: Put, cloud: Cloud) -> None:
    name = "States.ExceedToleratedFailureThreshold"
    rules: Machine = {
        "Retry": [{"ErrorEquals": [name], "MaxAttempts": 1}],
        "Catch": [{"ErrorEquals": [name], "Next": "Z"}],
    }
    caught = writing(ODD, ToleratedFailureCount=0, **rules)
    caught["States"]["Z"] = PASS
    run = begin(caught, GIVEN)
    assert run.status == "waiting"
    run = advance(run, "1s")
    assert (run.status, run.result["Error"]) == ("completed", name)
    keys = [one["Key"] for one in cloud.service("s3").list_objects_v2(Bucket="data")["Contents"]]
    assert len({key.split("/")[1] for key in keys}) == 2
    assert got(run, f"/runs/{run.id}")["state"] == {}


def test_a_step_that_is_tried_again_writes_the_same_files(stepwell: Stepwell) -> None:
    stepwell.define(json.dumps({"workflow": "w", **writing()}))
    mock = stepwell.mock(WRITE, raises=OSError("gone"), times=1)
    run = stepwell.start("w", GIVEN)
    assert run.status == "failed"
    again = stepwell.mock(WRITE, returns=None)
    found = run.redrive()
    assert found.status == "completed"
    assert again.calls == mock.calls
    keys = [one["Key"] for one in mock.calls[0]["Objects"]]
    assert found.result["ResultWriterDetails"] == {"Bucket": "data", "Key": keys[-1]}
    assert [key.rpartition("/")[2] for key in keys] == ["SUCCEEDED_0.json", "manifest.json"]


def test_two_visits_of_a_map_write_to_places_of_their_own(stepwell: Stepwell) -> None:
    looped = writing(ResultPath="$.out", Next="Q")
    looped["States"]["Q"] = {"Type": "Choice", "Default": "P", "Choices": [
        {"Variable": "$.done", "IsPresent": True, "Next": "Z"}]}  # fmt: skip
    looped["States"]["P"] = {"Type": "Pass", "Result": True, "ResultPath": "$.done", "Next": "W"}
    looped["States"]["W"] = {"Type": "Wait", "Seconds": 1, "Next": "A"}
    looped["States"]["Z"] = PASS
    stepwell.define(json.dumps({"workflow": "w", **looped}))
    mock = stepwell.mock(WRITE, returns=None)
    stepwell.start("w", GIVEN)
    stepwell.advance("1s")
    first, second = (call["Objects"][-1]["Key"] for call in mock.calls)
    assert first != second


def test_a_function_stands_in_for_the_bucket(begin: Begin) -> None:
    fields = writing()["States"]["A"]
    writer = {"Resource": "echo", "Parameters": {"Bucket": "b", "Prefix": ""}}
    run = begin(machine(A={**fields, "ResultWriter": writer}), GIVEN)
    id_ = run.result["MapRunArn"].rpartition(":")[2]
    assert run.result["ResultWriterDetails"] == {"Bucket": "b", "Key": f"{id_}/manifest.json"}


def test_a_history_has_the_map_alone(begin: Begin, put: Put) -> None:
    entries = history(begin(writing(), GIVEN))
    assert {one["step"] for one in entries} - {None} == {"A", "B"}
    joins = {one["data"]["join"] for one in entries if one["type"] == "fork.opened"}
    following = {one["data"]["next"] for one in entries if one["data"] and "next" in one["data"]}
    assert (joins, following - {None}) == ({"A"}, {"A", "B"})


def test_items_that_wait_are_written_when_all_are_over(begin: Begin, put: Put, cloud: Cloud) -> None:
    states = {"W": {"Type": "Wait", "Seconds": 60, "Next": "T"}, "T": task("plus", InputPath="$.n")}
    run = begin(writing(states, MaxConcurrency=2), GIVEN)
    advance(advance(run, "60s"), "60s")
    _, files = written(cloud, run.result["ResultWriterDetails"])
    assert [one["Output"] for one in files["SUCCEEDED_0.json"]] == ["2", "3", "4"]

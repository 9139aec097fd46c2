"""ItemReader: a Map whose items are a file in S3, or the objects of a bucket, emulated, in all homes of runs."""

from __future__ import annotations

import gzip
import itertools
import json
from typing import Any

import pytest

from stepwell.aws.services.calls import ServiceCalls
from stepwell.limits import READ_BYTES
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.services import ServiceSteps
from stepwell.testing.kit import Stepwell
from tests.contract.emulated import Cloud
from tests.machines.conftest import Begin, Machine, Put, advance, machine, task
from tests.machines.test_shown_nodes import got, history

GET, LIST = "arn:aws:states:::s3:getObject", "arn:aws:states:::s3:listObjectsV2"
ANSWERS: Machine = {"QueryLanguage": "JSONata"}
PASS: Machine = {"Type": "Pass", "End": True}
FAILED = "States.ItemReaderFailed"
CSV = {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}
GIVEN = {"at": {"bucket": "data", "key": "in.json"}, "most": 2}


@pytest.fixture
def calls(cloud: Cloud) -> Calls:
    return Calls(services=ServiceSteps(ServiceCalls(cloud.service)))


def reading(states: Machine | None = None, *, reader: Machine | None = None, **fields: Any) -> Machine:
    """A machine with one Map, `A`, which reads `data/in.json`."""
    inner = {**machine(**(states or {"B": PASS})), "ProcessorConfig": {"Mode": "DISTRIBUTED"}}
    found = {"Resource": GET, "ReaderConfig": {"InputType": "JSON"}, **(reader or {})}
    if not found.keys() & {"Parameters", "Arguments"}:
        found["Arguments" if "QueryLanguage" in fields else "Parameters"] = {"Bucket": "data", "Key": "in.json"}
    last = {} if "Next" in fields else {"End": True}
    return machine(A={"Type": "Map", "ItemReader": found, "ItemProcessor": inner, **last, **fields})


@pytest.mark.parametrize(
    ("config", "content", "items"),
    [
        ({"InputType": "JSON"}, '[1, {"a": null}]', [1, {"a": None}]),
        ({"InputType": "JSON"}, '{"a": 1, "b": [2]}', [{"Key": "a", "Value": 1}, {"Key": "b", "Value": [2]}]),
        ({"InputType": "JSON", "ItemsPointer": "/data/0/a~1b"}, '{"data": [{"a/b": [7]}]}', [7]),
        ({"InputType": "JSON", "MaxItems": 1}, "[1, 2]", [1]),
        ({"InputType": "JSON", "MaxItems": 0}, "[1, 2]", [1, 2]),
        ({"InputType": "JSONL"}, '{"a": 1}\n\n[2]\r\n"c"\n', [{"a": 1}, [2], "c"]),
        (CSV, "a,b\n1,2\n3\n,x,y\n", [{"a": "1", "b": "2"}, {"a": "3", "b": ""}, {"a": "", "b": "x"}]),
        ({**CSV, "CSVDelimiter": "PIPE", "MaxItems": 1}, 'a|b\n"1|2"|c\n3|4\n', [{"a": "1|2", "b": "c"}]),
        ({**CSV, "CSVHeaderLocation": "GIVEN", "CSVHeaders": ["a", "b"]}, "1,2\n", [{"a": "1", "b": "2"}]),
    ],
)
def test_a_file_is_read_to_the_items_of_the_map(
    begin: Begin, put: Put, config: Machine, content: str, items: list[Any]
) -> None:
    put("in.json", content)
    run = begin(reading(reader={"ReaderConfig": config}), GIVEN)
    assert (run.status, run.result) == ("completed", items)


def test_jsonata_says_where_the_items_are_and_how_many(begin: Begin, put: Put) -> None:
    put("in.json", "[1, 2, 3]")
    at = {"Bucket": "{% $states.input.at.bucket %}", "Key": "{% $states.input.at.key %}"}
    reader = {"Arguments": at, "ReaderConfig": {"InputType": "JSON", "MaxItems": "{% $states.input.most %}"}}
    selector = {"value": "{% $states.context.Map.Item.Value %}", "source": "{% $states.context.Map.Item.Source %}"}
    run = begin(reading(reader=reader, ItemSelector=selector, **ANSWERS), GIVEN)
    assert run.result == [{"value": one, "source": "s3://data/in.json"} for one in (1, 2)]


def test_paths_read_the_effective_input_and_results_are_put_into_the_whole(begin: Begin, put: Put) -> None:
    put("in.json", "[1, 2, 3]")
    reader = {"Parameters": {"Bucket.$": "$.bucket", "Key.$": "$.key"},
              "ReaderConfig": {"InputType": "JSON", "MaxItemsPath": "$.most"}}  # fmt: skip
    selector = {"n.$": "$$.Map.Item.Value", "of.$": "$.key", "source.$": "$$.Map.Item.Source"}
    given = {"at": {"bucket": "data", "key": "in.json", "most": 1}}
    run = begin(reading(reader=reader, InputPath="$.at", ItemSelector=selector, ResultPath="$.made"), given)
    assert run.result == {**given, "made": [{"n": 1, "of": "in.json", "source": "s3://data/in.json"}]}


def test_the_source_of_items_in_the_input_is_the_state_data(begin: Begin) -> None:
    selector = {"source.$": "$$.Map.Item.Source"}
    inner = machine(B=PASS)
    run = begin(machine(A={"Type": "Map", "ItemSelector": selector, "ItemProcessor": inner, "End": True}), [1])
    assert run.result == [{"source": "STATE_DATA"}]


def test_batches_are_made_of_what_was_read(begin: Begin, put: Put) -> None:
    put("in.json", "[1, 2, 3]")
    run = begin(reading(ItemBatcher={"MaxItemsPerBatch": 2}), GIVEN)
    assert run.result == [{"Items": [1, 2]}, {"Items": [3]}]


def test_a_list_has_the_objects_of_a_prefix(begin: Begin, put: Put, cloud: Cloud) -> None:
    for key in ("in/a", "in/b", "other"):
        put(key, "12345")
    reader = {"Resource": LIST, "ReaderConfig": {"MaxItems": 2}, "Parameters": {"Bucket": "data", "Prefix": "in/"}}
    selector = {"of.$": "$$.Map.Item.Source", "object.$": "$$.Map.Item.Value"}
    result = begin(reading(reader=reader, ItemSelector=selector), GIVEN).result
    assert [(one["of"], one["object"]["Key"], one["object"]["Size"]) for one in result] == [
        ("s3://data", "in/a", 5), ("s3://data", "in/b", 5)]  # fmt: skip
    (first, *_) = cloud.service("s3").list_objects_v2(Bucket="data", Prefix="in/")["Contents"]
    told = {"Etag": first["ETag"], "LastModified": int(first["LastModified"].timestamp()), "StorageClass": "STANDARD"}
    assert result[0]["object"] == {**told, "Key": "in/a", "Size": 5}


@pytest.mark.parametrize(
    ("config", "content", "cause"),
    [
        ({"InputType": "JSON"}, None, "S3.NoSuchKeyException: s3:getObject: "),
        ({"InputType": "JSON"}, "[1", "the file is no JSON: "),
        ({"InputType": "JSON"}, "[1e999]", "the file is no JSON: 1e999 is no number of JSON"),
        ({"InputType": "JSON"}, "NaN", "the file is no JSON: NaN is no number of JSON"),
        ({"InputType": "JSON"}, "[" * 80 + "]" * 80, "the file is nested deeper than 64 levels"),
        ({"InputType": "JSON"}, '["\\ud83d\\ude00", "\\ud83d"]', "the file has half a surrogate pair"),
        ({"InputType": "JSON"}, "7", "what the file has there is int, not a list"),
        ({"InputType": "JSON", "ItemsPointer": "/a/2"}, '{"a": [1]}', "the file has nothing at the ItemsPointer /a/2"),
        ({"InputType": "JSON", "MaxItemsPath": "$.at"}, "[1]", "the MaxItems of A is "),
        ({"InputType": "JSONL"}, '{"a": 1}\n{', "line 2 is no JSON: "),
        (CSV, "a,a\n1,2\n", "CSV headers cannot contain duplicates"),
        (CSV, 'a,b\n1,"2\n', "the quotation mark in line 2 has no end"),
        (CSV, b"\xff\xfe1", "bad_dataset: s3://data/in.json is no text in UTF-8: invalid start byte at byte 0"),
        (CSV, b"\x1f\x8b1", "bad_dataset: s3://data/in.json cannot be unpacked: "),
        (CSV, "x" * (READ_BYTES + 1), "dataset_too_large: s3://data/in.json has 5000001 bytes; "),
        (
            CSV,
            gzip.compress(b"x" * (READ_BYTES + 1), mtime=0),
            "dataset_too_large: s3://data/in.json has more than 5000000 ",
        ),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_read_is_an_error_that_the_map_catches(
    begin: Begin, put: Put, config: Machine, content: str | bytes | None, cause: str
) -> None:
    if content is not None:
        put("in.json", content)
    caught = [{"ErrorEquals": [FAILED], "Next": "Z"}]
    written = reading(reader={"ReaderConfig": config}, Catch=caught)
    written["States"]["Z"] = PASS
    run = begin(written, GIVEN)
    assert (run.status, run.result["Error"]) == ("completed", FAILED)
    assert run.result["Cause"].startswith(cause), run.result["Cause"]
    assert got(run, f"/runs/{run.id}?as=asl")["states_entered"] == ["A", "Z"]


def test_a_path_to_nothing_has_its_own_error_and_reads_nothing(begin: Begin, cloud: Cloud) -> None:
    written = reading(reader={"Parameters": {"Bucket.$": "$.none", "Key": "k"}},
                      Catch=[{"ErrorEquals": ["States.ALL"], "Next": "Z"}])  # fmt: skip
    written["States"]["Z"] = PASS
    assert begin(written, GIVEN).result["Error"] == "States.ParameterPathFailure"
    assert cloud.calls == []


def test_a_retry_reads_again_and_a_loop_enters_the_map_anew(begin: Begin, put: Put) -> None:
    tried = [{"ErrorEquals": [FAILED], "IntervalSeconds": 5, "MaxAttempts": 2, "BackoffRate": 1}]
    run = begin(reading(Retry=tried), GIVEN)
    assert run.status == "waiting"
    put("in.json", "[1, 2]")
    advance(run, "5s")
    assert (run.status, run.result) == ("completed", [1, 2])
    assert got(run, f"/runs/{run.id}?as=asl")["states_entered"] == ["A", "B", "B"]


def test_a_retry_that_an_item_needs_reads_the_items_again(begin: Begin, put: Put) -> None:
    put("in.json", "[1]")
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 5, "BackoffRate": 1}]
    states = machine(B=task("fail", Parameters={"times": 1, "name": "Busy"}))["States"]
    run = begin(reading(states, Retry=tried), GIVEN)
    put("in.json", "[1, 2]")
    assert advance(run, "5s").result == [{"tries": 2}, {"tries": 3}]


def test_a_run_that_nothing_catches_is_redriven_to_read_again(begin: Begin, put: Put) -> None:
    run = begin(reading(), GIVEN)
    error = got(run, f"/runs/{run.id}")["error"]
    assert (run.status, error["type"], error["step"]) == ("failed", "item_reader_failed", "A")
    assert got(run, f"/runs/{run.id}?as=asl")["error"] == FAILED
    put("in.json", "[1]")
    assert advance(run.redrive(), "1s").result == [1]


def test_items_that_are_large_together_are_kept_beside_the_log_and_let_go_after_the_map(begin: Begin, put: Put) -> None:
    items = [{"n": number, "text": "é" * 24_000} for number in range(6)]
    put("in.json", json.dumps(items))
    states = {"B": {"Type": "Pass", "Parameters": {"n.$": "$.n"}, "Next": "W"},
              "W": {"Type": "Wait", "Seconds": 60, "End": True}}  # fmt: skip
    written = reading(states, Next="Y")
    written["States"]["Y"] = {"Type": "Wait", "Seconds": 60, "End": True}
    run = begin(written, GIVEN)
    assert got(run, f"/runs/{run.id}")["state"] == {}
    advance(run, "60s")
    records = [one["record"] for one in run.export() if one.get("token") == "0"]
    kept = [one["writes"]["$read"] for one in records if "$read" in one.get("writes", {})]
    assert [None if one is None else len(one["items"]) for one in kept] == [6, None]
    assert advance(run, "60s").result == [{"n": number} for number in range(6)]


def test_a_map_in_a_branch_of_a_map_reads_its_own_file(begin: Begin, put: Put) -> None:
    put("in.json", '["x", "y"]')
    put("x", "[1]")
    put("y", "[2, 3]")
    inner = reading(reader={"Parameters": {"Bucket": "data", "Key.$": "$"}})["States"]["A"]
    run = begin(reading({"I": inner}), GIVEN)
    assert run.result == [[1], [2, 3]]


def test_a_history_tells_of_the_reading_under_the_name_of_its_state(begin: Begin, put: Put) -> None:
    put("in.json", "[1]")
    run = begin(reading(), GIVEN)
    entries = history(run)
    assert {one["step"] for one in entries} - {None} == {"A", "B"}
    told = [(one["type"], one["data"].get("next")) for one in entries if one["step"] == "A"]
    assert told[:4] == [("step.started", None), ("step.completed", "A"), ("node.passed", None), ("fork.opened", None)]
    assert "output" not in entries[4]["data"], "the Map has made none yet"


@pytest.mark.parametrize("name", ["A", GET])
@pytest.mark.parametrize("returned", ["[1, 2]", [1, 2]])
def test_a_test_mocks_the_reading_by_its_state_or_its_resource(stepwell: Stepwell, name: str, returned: Any) -> None:
    """What it returns is the file's text, or the items."""
    stepwell.define(json.dumps({"workflow": "w", **reading()}))
    mock = stepwell.mock(name, returns=returned)
    assert stepwell.start("w", {}).result == [1, 2]
    assert mock.calls == [{"Bucket": "data", "Key": "in.json"}]


def test_a_function_stands_in_for_a_file(begin: Begin) -> None:
    reader = {"Resource": "echo", "ReaderConfig": {"InputType": "JSON"}, "Parameters": {"Bucket": "data", "Key": "k"}}
    run = begin(reading(reader=reader), GIVEN)
    assert run.result == [{"Key": "Bucket", "Value": "data"}, {"Key": "Key", "Value": "k"}]


def test_an_error_of_a_stand_in_is_one_of_the_reader(stepwell: Stepwell) -> None:
    stepwell.define(json.dumps({"workflow": "w", **reading()}))
    stepwell.mock("A", raises=FileNotFoundError("gone"))
    error = stepwell.start("w", {}).error
    assert error is not None
    assert (error["type"], error["message"]) == ("item_reader_failed", "FileNotFoundError: gone")

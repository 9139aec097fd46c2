"""ItemReader in a definition: what it compiles to, what its mistakes are, and which permissions it needs."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.asl.datasets import items_of
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Step
from stepwell.errors import ExpressionError
from stepwell.runtime.stores.jsontext import encode

GET, LIST = "arn:aws:states:::s3:getObject", "arn:aws:states:::s3:listObjectsV2"
Machine = dict[str, Any]
AT = {"Bucket": "b", "Key": "k"}
JSON = {"InputType": "JSON"}
CSV = {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}
ANSWERS = {"QueryLanguage": "JSONata"}
INNER = {"StartAt": "B", "States": {"B": {"Type": "Pass", "End": True}}, "ProcessorConfig": {"Mode": "DISTRIBUTED"}}


def mapped(reader: Any, **fields: Any) -> Machine:
    state = {"Type": "Map", "ItemReader": reader, "ItemProcessor": INNER, "End": True, **fields}
    return {"workflow": "m", "StartAt": "A", "States": {"A": state}}


def reader(config: Any = JSON, **fields: Any) -> Machine:
    return {"Resource": GET, "ReaderConfig": config, "Parameters": AT, **fields}


def found(written: Machine) -> list[tuple[str, str]]:
    return [(one.code, one.path.removeprefix("/States/A")) for one in compile_definition(encode(written)).problems]


def step_of(written: Machine) -> Step:
    made = compile_definition(encode(written))
    assert made.graph is not None, made.problems
    step = made.graph.nodes["A.reader"].step
    assert step is not None
    return step


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (JSON, {}),
        ({**JSON, "ItemsPointer": "/a", "MaxItems": 3}, {}),
        ({**JSON, "MaxItemsPath": "$.most"}, {}),
        ({**CSV, "CSVDelimiter": "TAB"}, {}),
        ({**CSV, "CSVHeaderLocation": "GIVEN", "CSVHeaders": ["a"]}, {}),
        ({}, {"Resource": LIST, "Parameters": {"Bucket.$": "$.b", "Prefix": "p"}}),
        ({"Transformation": "NONE"}, {"Resource": LIST}),
    ],
)
def test_a_reader_without_mistakes_is_a_step_before_the_fork(config: Machine, fields: Machine) -> None:
    assert found(mapped(reader(config, **fields))) == []


@pytest.mark.parametrize(
    ("written", "code", "path"),
    [
        (mapped(3), "wrong_type", "/ItemReader"),
        (mapped({}), "missing_key", "/ItemReader"),
        (mapped(reader(Parameter={})), "unknown_key", "/ItemReader/Parameter"),
        (mapped(reader(Arguments={})), "misplaced_key", "/ItemReader/Arguments"),
        (mapped(reader(), **ANSWERS), "misplaced_key", "/ItemReader/Parameters"),
        (mapped(reader(Resource="arn:aws:states:::s3:getobject")), "unsupported_resource", "/ItemReader/Resource"),
        (mapped(reader(Parameters={"Key.$": "$["})), "bad_expression", "/ItemReader/Parameters/Key.$"),
        (mapped(reader(), ItemsPath="$.x"), "bad_state", "/ItemsPath"),
        (mapped(reader(), ItemProcessor={**INNER, "ProcessorConfig": {}}), "bad_state", "/ItemReader"),
        (mapped(reader(3)), "wrong_type", "/ItemReader/ReaderConfig"),
        (mapped(reader({})), "missing_key", "/ItemReader/ReaderConfig"),
        (mapped(reader({"InputType": "CSV"})), "missing_key", "/ItemReader/ReaderConfig"),
        (mapped(reader({**CSV, "CSVHeaderLocation": "GIVEN"})), "missing_key", "/ItemReader/ReaderConfig"),
        (mapped(reader({**CSV, "CSVHeaders": ["a", "a"]})), "wrong_type", "/ItemReader/ReaderConfig/CSVHeaders"),
        (mapped(reader({**CSV, "CSVDelimiter": ";"})), "bad_value", "/ItemReader/ReaderConfig/CSVDelimiter"),
        (mapped(reader({"InputType": "XML"})), "bad_value", "/ItemReader/ReaderConfig/InputType"),
        (mapped(reader({"InputType": "PARQUET"})), "unsupported", "/ItemReader/ReaderConfig/InputType"),
        (mapped(reader({"InputType": "MANIFEST"})), "unsupported", "/ItemReader/ReaderConfig/InputType"),
        (mapped(reader({**CSV, "ManifestType": "ATHENA_DATA"})), "unsupported",
         "/ItemReader/ReaderConfig/ManifestType"),
        (mapped(reader({**JSON, "Transformation": "LOAD_AND_FLATTEN"}, Resource=LIST)), "unsupported",
         "/ItemReader/ReaderConfig/Transformation"),
        (mapped(reader({**JSON, "ItemsPointer": "a"})), "wrong_type", "/ItemReader/ReaderConfig/ItemsPointer"),
        (mapped(reader({**JSON, "MaxItems": -1})), "wrong_type", "/ItemReader/ReaderConfig/MaxItems"),
        (mapped(reader({**JSON, "MaxItems": 1.5})), "wrong_type", "/ItemReader/ReaderConfig/MaxItems"),
        (mapped(reader({**JSON, "MaxItems": 1, "MaxItemsPath": "$.x"})), "bad_state",
         "/ItemReader/ReaderConfig/MaxItemsPath"),
        (mapped(reader({**JSON, "MaxItemsPath": "$["})), "bad_expression", "/ItemReader/ReaderConfig/MaxItemsPath"),
        (mapped({"Resource": GET, "ReaderConfig": {**JSON, "MaxItemsPath": "$.x"}, "Arguments": AT}, **ANSWERS),
         "unknown_key", "/ItemReader/ReaderConfig/MaxItemsPath"),
        (mapped({"Resource": GET, "ReaderConfig": {**JSON, "MaxItems": "{% $( %}"}, "Arguments": AT}, **ANSWERS),
         "bad_expression", "/ItemReader/ReaderConfig/MaxItems"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_reader_is_told_at_its_place(written: Machine, code: str, path: str) -> None:
    assert found(written) == [(code, path)]


def test_what_runs_in_place_of_a_reader_is_no_workflow() -> None:
    written = {**mapped(reader()), "resources": {GET: "workflow:other"}}
    assert ("unsupported_resource", "/ItemReader/Resource") in found(written)
    assert step_of({**mapped(reader()), "resources": {"arn:aws:states:::s3:*": "lambda:f"}}).run == "lambda:f"


@pytest.mark.parametrize(
    ("resource", "given", "uses"),
    [
        (GET, AT, ("aws", "s3:GetObject s3:b/k")),
        (GET, {"Bucket": "b", "Key.$": "$.k"}, ("aws", "s3:GetObject s3:b/*")),
        (GET, {**AT, "VersionId": "1"}, ("aws", "s3:GetObjectVersion s3:b/k")),
        (GET, {"Bucket.$": "$.b", "Key": "k"}, ("aws_own", "s3:getObject")),
        (LIST, {"Bucket": "b", "Prefix": "p/"}, ("aws", "s3:ListBucket s3:b")),
        (LIST, {"Bucket.$": "$.b"}, ("aws_own", "s3:listObjectsV2")),
    ],
)
def test_a_reader_needs_what_it_writes_out(resource: str, given: Machine, uses: tuple[str, str]) -> None:
    assert step_of(mapped(reader(Resource=resource, Parameters=given))).uses == (uses,)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("1,2", ["1", "2"]),
        ('"a,b","c\nd"', ["a,b", "c\nd"]),
        ('"say ""hi""",{""k"":1}', ['say "hi"', '{"k":1}']),
        (r"C:\\Files\\a.exe,b\,c", [r"C:\Files\a.exe", "b,c"]),
        (r'\"a\",\b', ['"a"', "b"]),
        ('"",', ["", ""]),
        (' a , "b"', [" a ", ' "b"']),
        ('"a"b,é', ["ab", "é"]),
    ],
)  # fmt: skip
def test_a_row_is_parsed_by_the_rules_of_step_functions(line: str, fields: list[str]) -> None:
    config = {**CSV, "CSVHeaderLocation": "GIVEN", "CSVHeaders": ["x", "y"]}
    for end in ("", "\n", "\r\n", "\r"):
        rows = items_of(f"{line}{end}", config)
        assert rows == [dict(zip("xy", fields, strict=True))], end


@pytest.mark.parametrize(
    ("name", "mark"), [("COMMA", ","), ("PIPE", "|"), ("SEMICOLON", ";"), ("SPACE", " "), ("TAB", "\t")]
)
def test_rows_are_split_at_the_delimiter_alone(name: str, mark: str) -> None:
    text = f"a{mark}b\n1.5{mark}x-y\n"
    assert items_of(text, {**CSV, "CSVDelimiter": name}) == [{"a": "1.5", "b": "x-y"}]


def test_empty_lines_are_no_rows_and_an_empty_file_has_none() -> None:
    assert items_of("\n\na,b\n\n1,2\n\n", CSV) == [{"a": "1", "b": "2"}]
    assert [items_of(text, CSV) for text in ("", "\n", "a,b", "\ufeffa,b\n")] == [[], [], [], []]


def test_the_mark_of_an_encoding_is_no_part_of_the_first_name() -> None:
    assert items_of("\ufeffa\n1\n", CSV) == [{"a": "1"}]
    assert items_of("\ufeff[1]", JSON) == [1]


def test_a_quotation_mark_without_an_end_is_told_in_time_that_grows_with_the_file_alone() -> None:
    with pytest.raises(ExpressionError, match="line 1 has no end"):
        items_of('"' + 'a""' * 300_000, CSV)


@pytest.mark.parametrize(
    ("pointer", "items"),
    [("", [{"$key": "a~/b", "Value": {"": [7], "2": [8]}}]), ("/a~0~1b/", [7]), ("/a~0~1b/2", [8])],
)
def test_an_items_pointer_is_read_as_in_rfc_6901(pointer: str, items: list[Any]) -> None:
    assert items_of('{"a~/b": {"": [7], "2": [8]}}', {**JSON, "ItemsPointer": pointer}) == items


@pytest.mark.parametrize("pointer", ["/x", "/a/1", "/a/-1", "/a/0/x", "/a/00x"])
def test_a_pointer_to_nothing_is_an_error(pointer: str) -> None:
    with pytest.raises(ExpressionError, match="the file has nothing at the ItemsPointer"):
        items_of('{"a": [1]}', {**JSON, "ItemsPointer": pointer})

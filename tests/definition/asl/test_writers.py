"""ResultWriter in a definition: what its mistakes are, and which permissions it needs."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.runtime.stores.jsontext import encode
from tests.definition.asl.test_readers import ANSWERS, INNER, Machine

WRITE = "arn:aws:states:::s3:putObject"
AT = {"Bucket": "b", "Prefix": "p"}


def mapped(writer: Any, **fields: Any) -> Machine:
    state = {"Type": "Map", "ResultWriter": writer, "ItemProcessor": INNER, "End": True, **fields}
    return {"workflow": "m", "StartAt": "A", "States": {"A": state}}


def writer(config: Any = None, **fields: Any) -> Machine:
    own = {} if config is None else {"WriterConfig": config}
    return {"Resource": WRITE, "Parameters": AT, **own, **fields}


def found(written: Machine) -> list[tuple[str, str]]:
    return [(one.code, one.path.removeprefix("/States/A")) for one in compile_definition(encode(written)).problems]


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        (mapped(writer()), []),
        (mapped(writer({"Transformation": "FLATTEN", "OutputType": "JSON"}, Parameters={"Bucket.$": "$.b"})), []),
        (mapped({"Resource": WRITE, "Arguments": AT}, **ANSWERS), []),
        (mapped(3), [("wrong_type", "/ResultWriter")]),
        (mapped({}), [("missing_key", "/ResultWriter")]),
        (mapped({"WriterConfig": {"Transformation": "FLATTEN"}}), [("missing_key", "/ResultWriter")]),
        (mapped(writer(Arguments={})), [("misplaced_key", "/ResultWriter/Arguments")]),
        (mapped(writer(Prefix="p")), [("unknown_key", "/ResultWriter/Prefix")]),
        (mapped(writer(Parameters={"Bucket.$": "$["})), [("bad_expression", "/ResultWriter/Parameters/Bucket.$")]),
        (mapped(writer(), ItemProcessor={**INNER, "ProcessorConfig": {"Mode": "INLINE"}}),
         [("bad_state", "/ResultWriter")]),
        (mapped(writer(3)), [("wrong_type", "/ResultWriter/WriterConfig")]),
        (mapped(writer({"Transform": "NONE"})), [("unknown_key", "/ResultWriter/WriterConfig/Transform")]),
        (mapped(writer({"Transformation": "none"})), [("bad_value", "/ResultWriter/WriterConfig/Transformation")]),
        (mapped(writer({"OutputType": "JSONL"})), []),
        (mapped(writer({"OutputType": "CSV"})), [("bad_value", "/ResultWriter/WriterConfig/OutputType")]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_writer_is_told_at_its_place(written: Machine, problems: list[tuple[str, str]]) -> None:
    assert found(written) == problems


def test_a_writer_that_nothing_runs_is_told() -> None:
    assert ("unsupported_resource", "/ResultWriter/Resource") in found(mapped(writer(Resource="arn:x")))
    assert ("unsupported_resource", "/ResultWriter/Resource") in found(
        {**mapped(writer()), "resources": {WRITE: "workflow:other"}}
    )
    assert found({**mapped(writer()), "resources": {WRITE: "lambda:f"}}) == []


@pytest.mark.parametrize(
    ("given", "uses"),
    [
        (AT, ("aws", "s3:PutObject s3:b/p/*")),
        ({"Bucket": "b", "Prefix": "p/q/"}, ("aws", "s3:PutObject s3:b/p/q/*")),
        ({"Bucket": "b", "Prefix.$": "$.p"}, ("aws", "s3:PutObject s3:b/*")),
        ({"Bucket": "b"}, ("aws", "s3:PutObject s3:b/*")),
        ({"Bucket.$": "$.b"}, ("aws_own", "s3:putObject")),
    ],
)
def test_a_writer_needs_what_it_writes_out(given: Machine, uses: tuple[str, str]) -> None:
    graph = compile_definition(encode(mapped(writer(Parameters=given)))).graph
    assert graph is not None
    step = graph.nodes["A"].step
    assert step is not None
    assert step.uses == (uses,)

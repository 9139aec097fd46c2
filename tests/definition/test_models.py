"""The published JSON Schema says what the check says."""

from __future__ import annotations

import json

import fastjsonschema
import pytest

from stepwell.definition.compiler import compile_document
from stepwell.definition.models import EntryDef, WaitDef, WorkflowDef, json_schema

GOOD = {
    "workflow": "w",
    "inputSchema": {"type": "object"},
    "timeline": [
        {"name": "a", "run": "python:m.f", "retryPolicy": {"maxRetries": 2, "on": ["transient"]}, "timeout": 5},
        {"name": "b", "wait": {"any": [{"for": "event", "name": "x"}, {"for": "delay", "timeout": "2h"}]}},
        {"name": "c", "branch": [{"when": True, "skip_to": "end"}]},
    ],
}


def test_the_schema_accepts_what_compiles() -> None:
    fastjsonschema.compile(json_schema(), use_default=False)(GOOD)
    compile_document(GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"timout": 1},
        {"timeline": [{"run": "x"}]},
        {"timeline": [{"name": "a", "retry": {"backoff": "expo"}}]},
        {"nodes": {"a": {}}},
    ],
)
def test_the_schema_refuses_what_the_check_refuses(change: dict[str, object]) -> None:
    validate = fastjsonschema.compile(json_schema(), use_default=False)
    with pytest.raises(fastjsonschema.JsonSchemaException):
        validate({**GOOD, **change})


def test_the_schema_is_plain_json_with_both_spellings() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert {"input_schema", "inputSchema"} <= schema["properties"].keys()
    assert "continue" in schema["$defs"]["DivergeRule"]["properties"]


def test_a_definition_can_be_built_in_python() -> None:
    built = WorkflowDef(workflow="w", timeline=[EntryDef(name="ok", wait=WaitDef(for_="approval", timeout="2h"))])
    graph = compile_document(built.model_dump(exclude_unset=True))
    assert graph.nodes["ok"].wait is not None
    assert graph.nodes["ok"].wait.timeout_ms == 7_200_000

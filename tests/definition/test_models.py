"""The published JSON Schema says what the check says."""

from __future__ import annotations

import json
from collections.abc import Callable

import fastjsonschema
import pytest

from stepwell.definition.compiler import compile_document
from stepwell.definition.editor_schema import json_schema
from stepwell.definition.models import EntryDef, WaitDef, WorkflowDef

GOOD = {
    "workflow": "w",
    "inputSchema": {"type": "object"},
    "timeline": [
        {"name": "a", "run": "python:m.f", "retryPolicy": {"maxRetries": 2, "on": ["transient"]}, "timeout": 5},
        {"name": "b", "wait": {"any": [{"for": "event", "name": "x"}, {"for": "delay", "timeout": "2h"}]}},
        {"name": "c", "branch": [{"when": True, "skip_to": "end"}]},
    ],
}

EACH = {"to": "b", "foreach": "input.items", "as": "line", "maxConcurrency": 2}
FORK = {
    "workflow": "w",
    "nodes": {
        "a": {"fanOut": "all", "transitions": [EACH, {"to": "c"}]},
        "b": {"transitions": [{"to": "d"}]},
        "c": None,
        "d": {"fanIn": {"policy": {"mOfN": 2}, "tolerate": {"percent": 10}}, "transitions": [{**EACH, "to": "e"}]},
        "e": {"fan_in": {"policy": {"m_of_n": 2}}},
    },
}

CALLS = {
    "workflow": "w",
    "failurePolicy": "compensate",
    "compensate_on": ["timeout"],
    "internal": True,
    "steps": [
        {"name": "a", "run": "workflow:f", "onFailure": "return", "parentClose": "abandon", "compensate": {"run": "x"}},
        {"name": "b", "children": [{"workflow": "f", "input": None}], "siblings": "finish"},
    ],
    "compensation": [{"step": "b", "action": "x", "retryPolicy": {}}],
}

WAITS = {
    "workflow": "w",
    "events": {"paid": {"consumeOnRead": False, "delivery": "broadcast", "expireAfter": 0, "max_pending": 10}},
    "nodes": {
        "a": {
            "wait": {
                "all": [
                    {"for": "document", "documents": ["cv", "id"]},
                    {"for": "document", "documents": "{{ input.documents }}"},
                    {
                        "for": "approval",
                        "approvers": {"need": 2, "of": ["ana", "leo"]},
                        "escalate": {"after": "4h", "to": ["boss"]},
                    },
                    {"for": "callback", "heartbeat": 300},
                ],
                "timeout": "1d",
            }
        }
    },
}

AGENT = {
    "agent": "a",
    "historyWindow": 5,
    "actions": [
        {"actionType": "send_message", "parameters": {"any": ["thing"]}, "retryPolicy": {}},
        {
            "id": 2,
            "action_type": "wait_for_response",
            "parameters": {
                "threadId": "t",
                "expectedFrom": "ana",
                "onTimeout": "continue",
                "timeoutActions": [{"actionType": "send_message"}, {"run": "send_message", "input": {"message": "x"}}],
            },
            "nextActionId": "end",
            "nextWhen": "a > 1",
        },
        {"actionType": "trigger_agent", "parameters": {"agent": "b", "waitForCompletion": False}},
        {"actionType": "request_document", "parameters": {"documents": ["cv"]}},
        {"actionType": "delay", "parameters": {"timeout": "2h"}},
        {
            "actionType": "wait_for_any",
            "parameters": {
                "any": [
                    {"actionType": "wait_for_event", "parameters": {"name": "paid"}},
                    {"actionType": "delay", "parameters": {"duration": 60}},
                ]
            },
        },
    ],
}


@pytest.fixture(scope="module")
def validate() -> Callable[[object], object]:
    """A validator of the schema: it takes longer to compile than all the documents take to be refused."""
    compiled: Callable[[object], object] = fastjsonschema.compile(json_schema(), use_default=False)
    return compiled


ENVELOPE = {
    "apiVersion": "v1",
    "kind": "Workflow",
    "metadata": {"name": "w"},
    "spec": {"steps": [{"name": "a", "run": "x", "dependsOn": [], "timeout": 5}]},
}


@pytest.mark.parametrize("good", [GOOD, FORK, CALLS, WAITS, AGENT, ENVELOPE])
def test_the_schema_accepts_what_compiles(validate: Callable[[object], object], good: dict[str, object]) -> None:
    validate(good)
    compile_document(good)


@pytest.mark.parametrize(
    "change",
    [
        {"timout": 1},
        {"timeline": [{"run": "x"}]},
        {"timeline": [{"name": "a", "retry": {"backoff": "expo"}}]},
        {"nodes": {"a": {}}},
        {"timeline": None, "nodes": {"a": {"fan_in": {"policy": {}}}}},
        {"timeline": None, "nodes": {"a": {"fan_in": {"policy": {"m_of_n": 0}}}}},
        {"timeline": None, "nodes": {"a": {"fan_in": {"tolerate": {"percent": 101}}}}},
        {"timeline": [{"name": "a", "children": [{}]}]},
        {"timeline": [{"name": "a", "run": "x", "compensate": {}}]},
        {"compensate_on": ["failure"]},
        {"timeline": [{"name": "a", "wait": {"for": "document", "documents": "cv"}}]},
        {"timeline": [{"name": "a", "wait": {"for": "document", "documents": ["cv", "cv"]}}]},
        {"timeline": [{"name": "a", "wait": {"for": "approval", "approvers": {"need": 0}}}]},
        {"timeline": [{"name": "a", "wait": {"for": "approval", "escalate": {"after": "4h"}}}]},
        {"events": {"paid": {"max_pending": 10_001}}},
        {"spec": {"timeline": [{"name": "a"}]}},
        {"timeline": None, "spec": {"timout": 1}},
        {"timeline": None, "actions": [{"parameters": {}}]},
        {"timeline": None, "actions": [{"actionType": "delay", "parameters": {"agent": "b"}}]},
        {"timeline": None, "actions": [{"action_type": "wait_for_response", "parameters": {"documents": ["cv"]}}]},
    ],
)
def test_the_schema_refuses_what_the_check_refuses(
    validate: Callable[[object], object], change: dict[str, object]
) -> None:
    with pytest.raises(fastjsonschema.JsonSchemaException):
        validate({key: value for key, value in {**GOOD, **change}.items() if value is not None})


def test_the_schema_is_plain_json_with_both_spellings() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert {"input_schema", "inputSchema"} <= schema["properties"].keys()
    assert "continue" in schema["$defs"]["DivergeRule"]["properties"]


def test_a_definition_can_be_built_in_python() -> None:
    built = WorkflowDef(workflow="w", timeline=[EntryDef(name="ok", wait=WaitDef(for_="approval", timeout="2h"))])
    graph = compile_document(built.model_dump(exclude_unset=True))
    assert graph.nodes["ok"].wait is not None
    assert graph.nodes["ok"].wait.timeout_ms == 7_200_000

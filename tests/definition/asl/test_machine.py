"""What `check` says of state machines: every mistake at its line, and nothing is ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.definition.compiler import Compiled, compile_definition, compile_document
from stepwell.definition.graph import Retrier
from stepwell.definition.states_language import is_named
from stepwell.runtime.folder.loading import load_folder

Machine = dict[str, Any]
TASK: Machine = {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}
DONE: Machine = {"Type": "Succeed"}


def machine(**states: Machine) -> Machine:
    return {"StartAt": next(iter(states)), "States": states}


def compiled(written: Machine, resources: Machine | None = None) -> Compiled:
    return compile_definition(json.dumps(written, indent=1), "m.asl.json", resources)


def found(written: Machine) -> list[tuple[str, str]]:
    return [(one.code, one.path) for one in compiled(written).errors]


def test_a_file_named_as_a_machine_is_a_workflow_of_its_name() -> None:
    made = compiled(machine(A={**TASK, "End": True}))
    assert made.problems == ()
    assert made.graph is not None
    assert (made.graph.name, made.graph.format, made.graph.start) == ("m", "States", "A")
    assert made.graph.nodes["A"].step is not None
    assert made.graph.nodes["A"].step.run == f"lambda:{TASK['Resource']}"


def test_a_machine_beside_keys_of_ours_has_those_too() -> None:
    text = json.dumps({"workflow": "w", "priority": 3, "TimeoutSeconds": 9, **machine(A=DONE)})
    graph = compile_definition(text).graph
    assert graph is not None
    assert (graph.name, graph.priority, graph.timeout_ms) == ("w", 3, 9000)


def test_a_stored_machine_compiles_to_the_same_graph() -> None:
    branches = [machine(B=DONE), machine(C={"Type": "Pass", "End": True})]
    graph = compiled(machine(A={"Type": "Parallel", "Branches": branches, "End": True})).graph
    assert graph is not None
    again = compile_document(json.loads(json.dumps(graph.document)), trusted=True)
    assert (again.version, list(again.nodes), again.start) == (graph.version, list(graph.nodes), graph.start)


@pytest.mark.parametrize(
    ("state", "code", "path"),
    [
        ({}, "bad_state", "/States/A"),
        ({"Type": "Tusk"}, "bad_state", "/States/A/Type"),
        ({**TASK, "End": True, "Retrys": []}, "unknown_key", "/States/A/Retrys"),
        ({**TASK}, "bad_state", "/States/A"),
        ({**TASK, "End": True, "Next": "B"}, "bad_state", "/States/A"),
        ({**TASK, "End": False}, "wrong_type", "/States/A/End"),
        ({**TASK, "Next": "C"}, "unknown_target", "/States/A/Next"),
        ({"Type": "Task", "End": True}, "missing_key", "/States/A"),
        ({**TASK, "End": True, "HeartbeatSeconds": 3, "TimeoutSeconds": 3}, "bad_value", "/States/A/HeartbeatSeconds"),
        ({**TASK, "End": True, "TimeoutSeconds": 0}, "bad_value", "/States/A/TimeoutSeconds"),
        ({**TASK, "Resource": "arn:aws:states:::http:invoke.waitForTaskToken", "End": True},
         "unsupported_resource", "/States/A/Resource"),
        ({**TASK, "End": True, "Arguments": {}}, "misplaced_key", "/States/A/Arguments"),
        ({**TASK, "End": True, "Parameters": {"x.$": "$["}}, "bad_expression", "/States/A/Parameters/x.$"),
        ({**TASK, "End": True, "ResultPath": "$..x"}, "bad_expression", "/States/A/ResultPath"),
        ({**TASK, "End": True, "Retry": [{"ErrorEquals": []}]}, "bad_value", "/States/A/Retry/0/ErrorEquals"),
        ({**TASK, "End": True, "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "C"}]}, "unknown_target",
         "/States/A/Catch/0/Next"),
        ({**TASK, "End": True, "Retry": [{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["E"]}]}, "bad_value",
         "/States/A/Retry/0/ErrorEquals"),
        ({**TASK, "End": True, "Retry": [{"ErrorEquals": ["E"], "BackoffRate": 0.5}]}, "bad_value",
         "/States/A/Retry/0/BackoffRate"),
        ({**TASK, "End": True, "Resource": "arn:aws:states:::ecs:runTask"}, "unsupported_resource",
         "/States/A/Resource"),
        ({"Type": "Wait", "Next": "B"}, "bad_state", "/States/A"),
        ({"Type": "Wait", "Seconds": -1, "Next": "B"}, "wrong_type", "/States/A/Seconds"),
        ({"Type": "Choice", "Choices": []}, "bad_state", "/States/A/Choices"),
        ({"Type": "Choice", "Choices": [{"Variable": "$.x", "StringEqual": "a", "Next": "B"}]}, "bad_expression", ""),
        ({"Type": "Parallel", "Branches": [], "End": True}, "bad_state", "/States/A/Branches"),
        ({"Type": "Parallel", "Branches": [{"StartAt": "X", "States": {}}], "End": True}, "bad_state",
         "/States/A/Branches/0/States"),
        ({"Type": "Map", "End": True}, "missing_key", "/States/A"),
        ({**TASK, "End": True, "Credentials": {}}, "unsupported", "/States/A/Credentials"),
        ({"Type": "Pass", "End": True, "Output": "{% $x( %}", "QueryLanguage": "JSONata"}, "bad_expression",
         "/States/A/Output"),
        ({"Type": "Pass", "End": True, "Parameters": {}, "QueryLanguage": "JSONata"}, "misplaced_key",
         "/States/A/Parameters"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(state: Machine, code: str, path: str) -> None:
    written = machine(A=state, B=DONE)
    places = found(written)
    assert code in [one for one, _ in places]
    assert not path or (code, path) in places
    assert all(one.line > 0 for one in compiled(written).errors)


@pytest.mark.parametrize("start", [None, 3, "Z", ["A"]])
def test_a_start_that_is_no_state_is_told(start: Any) -> None:
    assert found({"StartAt": start, "States": {"A": DONE}})


@pytest.mark.parametrize("states", [None, [], {}, 3, {"A": 3}, {"": DONE}, {"a/b": DONE}, {"end": DONE}])
def test_states_that_are_none_are_told(states: Any) -> None:
    assert found({"StartAt": "A", "States": states})


def test_two_states_of_one_name_are_told_wherever_they_stand() -> None:
    inner = machine(A=DONE)
    assert ("duplicate_name", "/States/P/Branches/0/States/A") in found(
        machine(A={"Type": "Pass", "Next": "P"}, P={"Type": "Parallel", "Branches": [inner], "End": True})
    )


def test_a_state_that_nothing_leads_to_is_told() -> None:
    assert found(machine(A=DONE, B=DONE)) == [("unreachable", "/States/B")]


def test_a_problem_names_states_and_none_of_their_parts() -> None:
    each = {"Type": "Map", "ItemProcessor": machine(B=DONE)}
    (problem,) = compiled(machine(A={**each, "End": True}, Z=DONE)).errors
    assert problem.hint.endswith("the run starts at `A`")
    (problem,) = compiled(machine(A={**each, "Next": "P"}, P={"Type": "Pass", "Next": "A"})).errors
    assert (problem.code, problem.message) == ("no_way_out", "a run that reaches `A`, `B`, `P` can never end")


def test_retriers_keep_their_numbers() -> None:
    one = {"ErrorEquals": ["E"], "IntervalSeconds": 2, "MaxAttempts": 7, "BackoffRate": 1.5, "MaxDelaySeconds": 9,
           "JitterStrategy": "FULL"}  # fmt: skip
    graph = compiled(machine(A={**TASK, "End": True, "Retry": [one, {"ErrorEquals": ["States.ALL"]}]})).graph
    assert graph is not None
    step = graph.nodes["A"].step
    assert step is not None
    first, second = step.retriers
    assert first == Retrier(first.errors, 7, 2000, 1.5, 9000, "full")
    assert second == Retrier(second.errors, 3, 1000, 2.0, None, "none")


# -- resources and substitutions


def test_a_resource_runs_what_the_folder_maps_it_to(tmp_path: Path) -> None:
    (tmp_path / "m.asl.json").write_text(json.dumps(machine(A={"Type": "Task", "Resource": "${Charge}", "End": True})))
    (tmp_path / "resources.yaml").write_text(
        'substitutions: {Charge: "arn:aws:lambda:eu-west-1:1:function:charge"}\n'
        'resources: {"*:function:charge": python:shop.charge, other: python:shop.other}\n'
    )
    loaded = load_folder(tmp_path)
    assert loaded.problems == ()
    (graph,) = loaded.graphs
    assert graph.nodes["A"].step is not None
    assert graph.nodes["A"].step.run == "python:shop.charge"
    assert graph.document["resources"] == {"*:function:charge": "python:shop.charge"}


def test_what_cannot_run_in_place_of_a_resource_is_told_in_a_definition_too() -> None:
    written = {**machine(A={"Type": "Task", "Resource": "charge", "End": True}), "resources": {"charge": "shop.charge"}}
    assert ("bad_run", "/resources/charge") in found(written)


def test_a_substitution_without_a_value_is_told() -> None:
    assert found(machine(A={"Type": "Task", "Resource": "${Charge}", "End": True}))[0] == (
        "unknown_substitution",
        "/States/A/Resource",
    )


@pytest.mark.parametrize(
    "text", ["- 1", "resource: {}", "resources: []", "resources: {a: 3}", "resources: {a: shop.charge}"]
)
def test_a_wrong_resources_file_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "resources.yaml").write_text(text)
    (problem,) = load_folder(tmp_path).problems
    assert (problem.severity, Path(problem.file).name) == ("error", "resources.yaml")


MAP: Machine = {"Type": "Map", "End": True, "ItemProcessor": machine(B=DONE)}
ANSWERS: Machine = {"QueryLanguage": "JSONata"}
CAUGHT: Machine = {"ErrorEquals": ["States.ALL"], "Next": "A"}


@pytest.mark.parametrize(
    ("state", "code", "path"),
    [
        ({"Type": "Pass", "Next": ["A"]}, "wrong_type", "/States/A/Next"),
        ({"Type": "Pass", "End": True, "Assign": ["x"]}, "wrong_type", "/States/A/Assign"),
        ({"Type": "Pass", "End": True, "Assign": "{% {} %}", **ANSWERS}, "wrong_type", "/States/A/Assign"),
        ({"Type": "Wait", "End": True, "Seconds": "{% ( %}", **ANSWERS}, "bad_expression", "/States/A/Seconds"),
        ({**TASK, "End": True, "Catch": [{**CAUGHT, "ResultPath": 1}]}, "wrong_type", "/States/A/Catch/0/ResultPath"),
        ({**TASK, "End": True, "Catch": [{**CAUGHT, "Next": []}]}, "unknown_target", "/States/A/Catch/0/Next"),
        ({**TASK, "End": True, "Catch": [{**CAUGHT, "Assign": 1}]}, "wrong_type", "/States/A/Catch/0/Assign"),
        ({"Type": "Choice", **ANSWERS, "Choices": [{"Condition": "{% true %}", "Next": "A", "Output": "{% ( %}"}]},
         "bad_expression", "/States/A/Choices/0/Output"),
        ({"Type": "Choice", **ANSWERS, "Choices": [{"Condition": "$total > 1000", "Next": "A"}]},
         "bad_expression", "/States/A/Choices/0/Condition"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatch": 2, "BatchInput": {"x.$": "{%"}}}, "bad_expression",
         "/States/A/ItemBatcher/BatchInput/x.$"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatch": "2"}}, "bad_value", "/States/A/ItemBatcher/MaxItemsPerBatch"),
        ({**MAP, "ItemBatcher": {"BatchInput": {}}}, "missing_key", "/States/A/ItemBatcher"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatchPath": "$["}}, "bad_expression",
         "/States/A/ItemBatcher/MaxItemsPerBatchPath"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatchPath": 3}}, "wrong_type",
         "/States/A/ItemBatcher/MaxItemsPerBatchPath"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatch": "{% ( %}"}, **ANSWERS}, "bad_expression",
         "/States/A/ItemBatcher/MaxItemsPerBatch"),
        ({**MAP, "ItemBatcher": {"MaxItemsPerBatchPath": "$.x"}, **ANSWERS}, "unknown_key",
         "/States/A/ItemBatcher/MaxItemsPerBatchPath"),
        ({**MAP, "MaxConcurrencyPath": "$["}, "bad_expression", "/States/A/MaxConcurrencyPath"),
        ({**MAP, "MaxConcurrencyPath": 3}, "wrong_type", "/States/A/MaxConcurrencyPath"),
        ({**MAP, "MaxConcurrencyPath": "$.x", "MaxConcurrency": 3}, "bad_state", "/States/A/MaxConcurrencyPath"),
        ({**MAP, "MaxConcurrency": "3"}, "wrong_type", "/States/A/MaxConcurrency"),
        ({**MAP, "MaxConcurrency": "{% ( %}", **ANSWERS}, "bad_expression", "/States/A/MaxConcurrency"),
        ({**MAP, "ToleratedFailurePercentage": 101}, "bad_value", "/States/A/ToleratedFailurePercentage"),
        ({**MAP, "Label": "a b"}, "bad_value", "/States/A/Label"),
        ({**TASK, "End": True, "TimeoutSecondsPath": "$.x", "TimeoutSeconds": 3}, "bad_state",
         "/States/A/TimeoutSecondsPath"),
        ({**MAP, "ItemProcessor": {**machine(B=DONE), "Timeout": 1}}, "unknown_key", "/States/A/ItemProcessor/Timeout"),
        ({**MAP, "ItemProcessor": {**machine(B=DONE), "ProcessorConfig": {"Mode": "X"}}}, "bad_value",
         "/States/A/ItemProcessor/ProcessorConfig/Mode"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_any_type_is_reported_at_its_place(state: Machine, code: str, path: str) -> None:
    assert (code, path) in found(machine(A=state))


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*bc", "abc", True),
        ("ab*bc", "abc", False),
        ("*:f", "arn:f", True),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "a1c2b", False),
        ("a?", "ab", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(name: str, text: str, is_one: bool) -> None:
    assert is_named(text, name) is is_one


ARN = "arn:aws:states:::"


@pytest.mark.parametrize(
    ("given", "run", "uses"),
    [
        ({"FunctionName": "f"}, "lambda:f", ()),
        ({"FunctionName": "f", "Qualifier": "live"}, "lambda:f:live", ()),
        ({"FunctionName": "f", "InvocationType": "Event"}, f"{ARN}lambda:invoke", (("lambda", "f"),)),
        ({"FunctionName": "f", "Qualifier.$": "$.v"}, f"{ARN}lambda:invoke", (("lambda", "f"), ("lambda", "f:*"))),
        ({"FunctionName.$": "$.f"}, f"{ARN}lambda:invoke", (("aws_own", "lambda:invoke"),)),
    ],
)
def test_a_function_is_called_by_its_name_or_as_its_parameters_say(given: Machine, run: str, uses: Any) -> None:
    made = compiled(machine(A={"Type": "Task", "Resource": f"{ARN}lambda:invoke", "Parameters": given, "End": True}))
    assert made.problems == ()
    assert made.graph is not None
    step = made.graph.nodes["A"].step
    assert step is not None
    assert (step.run, step.uses) == (run, uses)


@pytest.mark.parametrize(
    ("call", "given", "hint"),
    [
        ("lambda:invoke", {}, 'write "FunctionName": "NAME"'),
        ("http:invoke", {"Method": "GET", "Authentication": {}}, "map the resource in resources.yaml"),
        ("http:invoke", {"ApiEndpoint": "http://a.example.com"}, "write https://"),
        ("ecs:runTask", {}, "write the SDK's call, arn:aws:states:::aws-sdk:ecs:runTask, or name what runs"),
        ("ecs:runTask.sync", {}, "name what runs in its place"),
        ("batch:submitJob.waitForTaskToken", {}, "name what runs in its place"),
        ("sqs:sendMesage", {}, "did you mean `sqs:sendMessage`?"),
        ("dynamodb:putitem.waitForTaskToken", {}, "did you mean `dynamodb:putItem`?"),
    ],
)
def test_what_cannot_be_called_says_what_to_do(call: str, given: Machine, hint: str) -> None:
    state = {"Type": "Task", "Resource": f"{ARN}{call}", "Parameters": given, "End": True}
    (problem,) = compiled(machine(A=state)).errors
    assert (problem.code, problem.hint[: len(hint)]) == ("unsupported_resource", hint)

"""State machines of Amazon States Language: this version refuses each of them, once, with its place and a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.checking import check_path
from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.errors import DefinitionError, Problem
from stepwell.runtime.starts.folder import load_folder

TASK = {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}


def machine(**states: Any) -> dict[str, Any]:
    return {"StartAt": next(iter(states)), "States": states}


def nested(levels: int) -> dict[str, Any]:
    made = machine(A={"Type": "Succeed"})
    for _ in range(levels):
        made = machine(A={"Type": "Parallel", "Branches": [made], "End": True})
    return made


MACHINES: dict[str, Any] = {
    "a task": machine(A={**TASK, "End": True}),
    "a comment, a version and a time limit": {
        "Comment": "c",
        "Version": "1.0",
        "TimeoutSeconds": 9,
        **machine(A={"Type": "Succeed"}),
    },
    "JSONata": {"QueryLanguage": "JSONata", **machine(A={**TASK, "Output": "{% $states.result %}", "End": True})},
    "a choice": machine(
        A={"Type": "Choice", "Choices": [{"Variable": "$.x", "IsPresent": True, "Next": "B"}], "Default": "B"},
        B={"Type": "Fail", "CausePath": "$.e.Cause"},
    ),
    "a wait": machine(A={"Type": "Wait", "TimestampPath": "$.t", "End": True}),
    "parallel branches": machine(A={"Type": "Parallel", "Branches": [machine(B={"Type": "Succeed"})], "End": True}),
    "a map": machine(
        A={"Type": "Map", "ItemProcessor": machine(B={"Type": "Succeed"}), "ToleratedFailureCount": 1, "End": True}
    ),
    "a task token": machine(A={"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken"}),
    "no start": {"States": {"A": {"Type": "Succeed"}}},
    "no states": {"StartAt": "A"},
    "states of a wrong type": {"StartAt": 3, "States": [1]},
    "states without a value": {"StartAt": "A", "States": None},
    "a loop": machine(A={"Type": "Pass", "Next": "A"}),
    "names with slashes and pictures": machine(**{"a/b~c 🚀": {"Type": "Succeed"}}),
    "3,000 states": machine(**{f"S{at}": {"Type": "Pass", "Next": f"S{at + 1}"} for at in range(3000)}),
    "a name of ours beside it": {"workflow": "w", **machine(A={"Type": "Succeed"})},
    "an envelope of ours": {"kind": "Workflow", "spec": machine(A={"Type": "Succeed"}), "Comment": "c"},
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_state_machine_is_one_problem_with_its_line_and_a_hint(name: str) -> None:
    (problem,) = compile_definition(json.dumps(MACHINES[name], indent=1, ensure_ascii=False), "m.json").problems
    assert (problem.code, problem.severity) == ("unsupported_format", "error")
    assert problem.line > 0
    assert "docs/coming-from/step-functions.md" in problem.hint


@pytest.mark.parametrize("file", ["m.asl.json", "m.asl.yaml", "m.asl.yml", "m.json", "m.yaml"])
@pytest.mark.parametrize("folder", ["", "old"])
def test_a_folder_and_a_file_say_the_same_and_a_sub_folder_is_not_left_out(
    file: str, folder: str, tmp_path: Path
) -> None:
    path = tmp_path / folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(machine(A={"Type": "Succeed"}), indent=1))
    (problem,) = load_folder(tmp_path).problems
    assert (problem.code, problem.line, problem.workflow) == ("unsupported_format", 3, "m")
    assert list(check_path(path)[1]) == [problem]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "{", json.dumps(nested(150)), "workflow: w\nnodes: {a: {}}\n"])
def test_a_file_that_is_named_as_a_state_machine_is_refused_whatever_it_has(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.asl.json").write_text(text)
    found: tuple[Problem, ...] = load_folder(tmp_path).problems
    assert [problem.code for problem in found] == ["unsupported_format"]
    assert list(check_path(tmp_path / "m.asl.json")[1]) == list(found)


def test_json_of_a_sub_folder_with_states_and_a_name_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "m.json").write_text('{"workflow": "w", "States": {}}')
    assert [problem.code for problem in load_folder(tmp_path).problems] == ["unsupported_format"]


@pytest.mark.parametrize("text", ['{"States": ["CA", "NY"]}', '{"StartAt": "09:00"}', '{"workflow": "w"}', "{}"])
def test_settings_of_a_sub_folder_are_no_state_machine(text: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "m.json").write_text(text)
    assert load_folder(tmp_path).problems == ()


def test_a_state_machine_given_as_data_is_refused_too() -> None:
    with pytest.raises(DefinitionError) as error:
        compile_document(machine(A={"Type": "Succeed"}))
    assert [problem.code for problem in error.value.problems] == ["unsupported_format"]


def test_a_mistaken_key_is_not_corrected_to_a_format_that_is_refused() -> None:
    problems = compile_definition("workflow: w\nStarts: a\n").problems
    assert not any("`States`" in problem.hint for problem in problems)


@pytest.mark.parametrize("key", ["States: {}", "StartAt: a"])
def test_a_key_of_a_state_machine_beside_our_nodes_is_refused_at_its_line(key: str) -> None:
    problems = compile_definition(f"workflow: w\nnodes: {{a: {{}}}}\n{key}\n").errors
    assert ("unsupported", 3) in [(problem.code, problem.line) for problem in problems]


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        ("arn:aws:lambda:us-east-1:123456789012:function:f:live", "write lambda: before it"),
        ("arn:aws:states:::lambda:invoke", "write lambda: and the function's name"),
        ("arn:aws:states:::states:startExecution.sync:2", "write workflow: and the workflow's name"),
        ("arn:aws-cn:lambda:cn-north-1:123456789012:function:f", "write lambda: before it"),
        ("arn:aws:states:::sqs:sendMessage.waitForTaskToken", "call the service in a Python function"),
        ("arn:aws:states:us-east-1:123456789012:activity:a", "call the service in a Python function"),
    ],
)
def test_the_resource_of_a_task_is_told_what_it_becomes(resource: str, said: str) -> None:
    text = f"workflow: w\ntimeline:\n  - {{name: a, timeout: 1s, run: '{resource}'}}\n"
    (problem,) = compile_definition(text).errors
    assert (problem.code, problem.line) == ("bad_run", 3)
    assert problem.hint.startswith(said)

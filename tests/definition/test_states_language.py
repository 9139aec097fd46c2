"""State machines of Amazon States Language in a folder: which files are some, and what their names are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.folder.checking import check_path
from stepwell.definition.compiler import compile_definition
from stepwell.runtime.folder.loading import load_folder

MACHINE: dict[str, Any] = {"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}


def nested(levels: int) -> dict[str, Any]:
    made = MACHINE
    for level in range(levels):
        name = f"P{level}"
        made = {"StartAt": name, "States": {name: {"Type": "Parallel", "Branches": [made], "End": True}}}
    return made


@pytest.mark.parametrize("file", ["m.asl.json", "m.asl.yaml", "m.asl.yml", "m.json", "m.yaml"])
@pytest.mark.parametrize("folder", ["", "old"])
def test_a_machine_is_a_workflow_named_by_its_file_in_a_sub_folder_too(file: str, folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(MACHINE, indent=1))
    loaded = load_folder(tmp_path)
    assert loaded.problems == ()
    assert [graph.name for graph in loaded.graphs] == ["m"]
    assert check_path(path) == (1, ())


@pytest.mark.parametrize("text", ["", "{}", "[1]", "{", json.dumps(nested(150)), '{"StartAt": "A"}'])
def test_a_file_that_is_named_as_a_machine_and_has_none_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.asl.json").write_text(text)
    assert load_folder(tmp_path).errors


def test_machines_nest_as_deeply_as_json_may() -> None:
    assert compile_definition(json.dumps(nested(8)), "m.asl.json").problems == ()


@pytest.mark.parametrize("text", ['{"States": ["CA", "NY"]}', '{"StartAt": "09:00"}', '{"workflow": "w"}', "{}"])
def test_settings_of_a_sub_folder_are_no_state_machine(text: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "m.json").write_text(text)
    assert load_folder(tmp_path).problems == ()


@pytest.mark.parametrize("key", ["States: {}", "StartAt: a", "TimeoutSeconds: 3", "Comment: c", "Version: one"])
def test_a_key_of_a_machine_beside_our_nodes_is_refused_at_its_line(key: str) -> None:
    problems = compile_definition(f"workflow: w\nnodes: {{a: {{}}}}\n{key}\n").errors
    assert 3 in [problem.line for problem in problems]


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

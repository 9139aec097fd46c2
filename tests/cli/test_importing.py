"""`stepwell import asl`: a state machine comes into the workflow folder, with what its tasks lack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.runtime.folder.loading import load_folder
from tests.cli.conftest import Cli

MACHINE = {
    "StartAt": "A",
    "States": {
        "A": {"Type": "Task", "Resource": "arn:aws:states:::ecs:runTask.sync", "Next": "B"},
        "B": {"Type": "Task", "Resource": "${Charge}", "End": True},
    },
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflows").mkdir()


def test_a_machine_is_written_and_what_it_lacks_is_listed(cli: Cli, tmp_path: Path) -> None:
    Path("refund.json").write_text(json.dumps(MACHINE))
    result = cli("import", "asl", "refund.json")
    assert result.exit_code == 0
    assert '"arn:aws:states:::ecs:runTask.sync": python:module.function' in result.stdout
    assert '"Charge": VALUE' in result.stdout
    assert json.loads((tmp_path / "workflows" / "refund.asl.json").read_text()) == MACHINE


def test_once_it_has_what_it_lacks_the_folder_is_right(cli: Cli, tmp_path: Path) -> None:
    Path("refund.json").write_text(json.dumps(MACHINE))
    result = cli("import", "asl", "refund.json", "--json")
    lacking = json.loads(result.stdout)["resources"]
    assert lacking == {"resources": ["arn:aws:states:::ecs:runTask.sync"], "substitutions": ["Charge"]}
    written = {"resources": {lacking["resources"][0]: "python:shop.send", "charge": "python:shop.charge"},
               "substitutions": {"Charge": "charge"}}  # fmt: skip
    (tmp_path / "workflows" / "resources.yaml").write_text(json.dumps(written))
    assert load_folder(tmp_path / "workflows").problems == ()


def test_the_functions_of_lambda_that_it_calls_are_listed(cli: Cli, tmp_path: Path) -> None:
    """`stepwell dev` runs none of them, and only a failed run told so."""
    arns = [f"arn:aws:lambda:eu-west-1:123456789012:function:{name}" for name in ("charge", "pack:live")]
    task = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": arns[1]}}
    states = {"A": {"Type": "Task", "Resource": arns[0], "Next": "B"}, "B": {**task, "End": True}}
    Path("order.json").write_text(json.dumps({"StartAt": "A", "States": states}))
    told = cli("import", "asl", "order.json").stdout
    assert all(f"  {arn}\n" in told for arn in arns)
    (tmp_path / "workflows" / "resources.yaml").write_text('resources: {"*:function:charge": python:shop.charge}')
    found = json.loads(cli("import", "asl", "order.json", "--name", "again", "--json").stdout)
    assert (found["functions"], found["resources"]) == (arns[1:], {})


def test_what_describe_state_machine_prints_is_taken_with_its_name(cli: Cli) -> None:
    Path("told.json").write_text(json.dumps({"name": "Refund", "definition": json.dumps(MACHINE)}))
    assert cli("import", "asl", "told.json").exit_code == 0
    assert Path("workflows/Refund.asl.json").is_file()


def test_a_file_that_is_there_is_kept(cli: Cli) -> None:
    Path("refund.json").write_text(json.dumps(MACHINE))
    Path("workflows/refund.asl.json").write_text("mine")
    result = cli("import", "asl", "refund.json")
    assert (result.exit_code, "file_exists" in result.stderr) == (2, True)
    assert Path("workflows/refund.asl.json").read_text() == "mine"


@pytest.mark.parametrize("text", ["{}", "[]", "3", "{", "a: 1", '{"definition": "{}"}'])
def test_what_is_no_machine_is_refused_and_nothing_is_written(text: str, cli: Cli) -> None:
    Path("other.json").write_text(text)
    result = cli("import", "asl", "other.json")
    assert (result.exit_code, "not_a_machine" in result.stderr) == (2, True)
    assert list(Path("workflows").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a b"])
def test_a_name_that_no_workflow_can_have_is_refused(name: str, cli: Cli) -> None:
    Path("refund.json").write_text(json.dumps(MACHINE))
    result = cli("import", "asl", "refund.json", "--name", name)
    assert (result.exit_code, "bad_name" in result.stderr) == (2, True)
    assert list(Path("workflows").iterdir()) == []


def test_a_machine_that_cannot_be_read_is_told_with_its_line(cli: Cli) -> None:
    Path("refund.json").write_text('{"StartAt": "A"\n "States": {}}')
    result = cli("import", "asl", "refund.json")
    assert result.exit_code != 0
    assert "refund.json:2:2" in result.stderr
    assert "not readable as JSON: expecting ',' delimiter" in result.stderr


def test_a_machine_that_is_not_there_is_told_with_what_to_give(cli: Cli) -> None:
    result = cli("import", "asl", "refund.json")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: there is no file 'refund.json' [no_such_file]\n"
        "  hint: give the machine's JSON or YAML, or what `aws stepfunctions describe-state-machine` prints\n",
    )


def test_the_functions_and_services_that_tasks_name_are_listed_with_those_of_arns(cli: Cli, tmp_path: Path) -> None:
    invoke = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke"}
    queue = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
    states = {
        "A": {**invoke, "Parameters": {"FunctionName": "pack"}, "Next": "B"},
        "B": {**invoke, "Parameters": {"FunctionName.$": "$.name"}, "Next": "C"},
        "C": {**invoke, "Parameters": {"FunctionName": "${Ship}"}, "Next": "D"},
        "D": {"Type": "Task", "Resource": queue, "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "End": True},
    }
    Path("order.json").write_text(json.dumps({"StartAt": "A", "States": states}))
    told = cli("import", "asl", "order.json").stdout
    assert "AWS runs these" in told
    assert all(f"  {name}\n" in told for name in ("pack", queue))
    (tmp_path / "workflows" / "resources.yaml").write_text(f'resources: {{"{queue}": python:shop.ask}}')
    found = json.loads(cli("import", "asl", "order.json", "--name", "again", "--json").stdout)
    assert (found["functions"], found["services"]) == (["pack"], [])


@pytest.mark.parametrize("flow", ["workflow: refund\ntimeline: [{name: a}]", "workflow: refund\ntimeline: [{nam: a}]"])
def test_a_workflow_of_that_name_in_another_file_is_not_hidden(flow: str, cli: Cli) -> None:
    Path("refund.json").write_text(json.dumps(MACHINE))
    Path("workflows/mine.yaml").write_text(flow)
    result = cli("import", "asl", "refund.json")
    assert (result.exit_code, "workflow_exists" in result.stderr) == (2, True)
    assert not Path("workflows/refund.asl.json").exists()
    assert cli("import", "asl", "refund.json", "--name", "refund-2").exit_code == 0

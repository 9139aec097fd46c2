"""`stepwell verify` in front of `stepwell.testing.verify`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stepwell.cli.hushing import each_once
from stepwell.cli.main import app
from stepwell.testing.kit import Stepwell

FAULTS = Path(__file__).parents[2] / "examples" / "faults"
ADA = '{"customer": "Ada", "amount": 80}'


def verify(*args: str) -> Result:
    return CliRunner().invoke(app, ["verify", *args, "--shuffles", "2"])


def test_a_fault_is_told_and_is_the_exit_status() -> None:
    told = verify("invoice", str(FAULTS), "-i", ADA)
    assert told.exit_code == 1, told.output
    assert "not idempotent" in told.stdout
    assert "a worker dies before write 7" in told.stdout
    assert "ctx.idempotency_key" in told.stdout


def test_a_workflow_that_holds_is_told_as_json() -> None:
    told = verify("invoice-mended", str(FAULTS), "-i", ADA, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["holds"], found["called"]) == (True, ["charge", "receipt", "write"])
    assert {one["verdict"] for one in found["steps"]} == {"idempotent"}


def test_a_run_that_fails_undisturbed_proves_nothing_and_has_an_exit_status_of_its_own() -> None:
    """Unless the user says that it may fail."""
    told = verify("invoice-mended", str(FAULTS), "-i", '{"customer": "Ada", "amount": "much"}')
    assert told.exit_code == 5, told.output
    assert "invoice-mended proves nothing: its undisturbed run ended as failed (" in told.stdout
    assert "invoice-mended holds" not in told.stdout
    allowed = verify("invoice-mended", str(FAULTS), "-i", '{"customer": "Ada", "amount": "much"}', "--may-fail")
    assert (allowed.exit_code, "invoice-mended holds" in allowed.stdout) == (0, True), allowed.output


def test_a_run_that_fails_for_the_null_of_a_call_that_was_not_made_is_told_what_to_say(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "workflow: flow\ntimeline:\n  - {name: pay, run: 'http:POST https://pay.example.com', timeout: 5s, "
        "output: {id: '{{ result.body.id }}'}}\n"
    )
    told = verify("flow", str(tmp_path), "--shuffles", "1")
    assert told.exit_code == 5, told.output
    assert "give it an input or other answers, what pay returns (--mock pay=JSON), or say that it may" in told.stdout


def test_what_steps_print_is_told_once_and_leaves_standard_output_to_the_report(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "workflow: flow\ntimeline:\n  - {name: say, run: 'python:talk.say', timeout: 5s}\n"
    )
    (tmp_path / "talk.py").write_text("def say():\n    print('hello')\n    return 1\n")
    told = verify("flow", str(tmp_path), "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["holds"]
    assert told.stderr == "hello\n"


def test_what_a_command_runs_many_times_logs_each_message_once(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.lastResort
    assert handler is not None
    with each_once():
        for told in ("charge failed", "charge failed", "ship failed"):
            handler.handle(logging.makeLogRecord({"msg": told, "levelno": logging.WARNING}))
        print("half a line", end="")
    handler.handle(logging.makeLogRecord({"msg": "charge failed", "levelno": logging.WARNING}))
    assert capsys.readouterr() == ("", "charge failed\nship failed\nhalf a line\ncharge failed\n")


def test_a_mocked_step_is_not_called() -> None:
    told = verify("invoice", str(FAULTS), "-i", ADA, "--mock", 'charge="payment-1"', "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["called"] == ["receipt", "write"]


def test_a_name_that_no_step_has_is_refused() -> None:
    """Nothing would have failed, and the workflow would seem to hold."""
    told = verify("invoice-mended", str(FAULTS), "-i", ADA, "--fail", "chrage", "--mock", "receipt=1")
    assert told.exit_code == 2
    assert told.stderr == (
        "error: a step to replace, or to fail: no step is called 'chrage' [no_such_name]\n"
        "  hint: did you mean `charge`?\n"
    )


def test_a_step_that_the_run_never_came_to_is_told() -> None:
    given = ADA.replace("80", '"much"')
    told = verify("invoice-mended", str(FAULTS), "-i", given, "--may-fail", "--mock", "receipt=1", "--json")
    assert json.loads(told.stdout)["notes"][1:] == ["no step that ran is called receipt: nothing was replaced"]


def test_a_file_of_the_users_is_the_world(tmp_path: Path) -> None:
    world = tmp_path / "world.py"
    world.write_text("""
PAID = []
reset = PAID.clear
def snapshot(): return PAID
steps = {"charge": lambda input: PAID.append(input), "receipt": None, "write": {"amount": 1}}
""")
    told = verify("invoice", str(FAULTS), "-i", ADA, "--world", str(world), "--json")
    assert told.exit_code == 1, told.output
    bad = [one for one in json.loads(told.stdout)["steps"] if one["verdict"] == "not idempotent"]
    assert [one["step"] for one in bad] == ["charge"]


@pytest.mark.parametrize("text", ["raise ValueError", None])
def test_a_world_that_cannot_be_imported_is_wrong_usage(tmp_path: Path, text: str | None) -> None:
    world = tmp_path / "world.py"
    if text is not None:
        world.write_text(text)
    told = verify("invoice", str(FAULTS), "--world", str(world))
    assert told.exit_code == 2
    assert "bad_world" in told.stderr


def test_an_unknown_workflow_is_told_with_those_that_are_there() -> None:
    told = verify("invoices", str(FAULTS))
    assert told.exit_code == 2
    assert "invoice-mended" in told.stderr


def test_the_export_of_a_run_gives_input_and_answers(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("""
workflow: w
timeline:
  - {name: ask, wait: {for: approval, timeout: 1d}}
  - {name: paid, wait: {for: event, name: paid, key: "{{ input.id }}", timeout: 1d}}
""")
    kit = Stepwell(tmp_path)
    run = kit.start("w", {"id": "A-1"})
    run.approve(by="ana")
    kit.event("paid", {"amount": 80}, key="A-1")
    assert run.status == "completed"
    export = tmp_path / "run.jsonl"
    export.write_text("".join(f"{json.dumps(line)}\n" for line in run.export()))
    told = verify("w", str(tmp_path), "--answers", str(export), "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["undisturbed"]["result"] == {"amount": 80}


def test_the_export_of_a_run_gives_delegations_and_answers_in_branches_too(tmp_path: Path) -> None:
    """Of the branches of one node, which of them was answered; of a wait for two approvals, which one."""
    (tmp_path / "w.yaml").write_text("""
workflow: w
nodes:
  ask:
    wait: {for: approval, timeout: 1d, approvers: {need: 2, of: [ana, leo]}}
    transitions: [{to: each, foreach: "{{ input.lines }}"}]
  each:
    wait: {for: approval, timeout: 1d, approvers: {of: [ana, leo]}}
    transitions: [{to: both}]
  both:
    fan_in: {}
    wait: {all: [{for: approval, approvers: {of: [ana]}}, {for: approval, approvers: {of: [ana, leo]}}], timeout: 1d}
""")
    kit = Stepwell(tmp_path)
    run = kit.start("w", {"lines": ["a", "b"]})
    run.approve(by="ana")
    run.delegate("leo", "bea")
    run.approve(by="bea")
    (first, second) = [one["id"] for one in run.branches()]
    run.approve("of b", by="leo", wait=second)
    run.approve("of a", by="ana", wait=first)
    run.approve("two", by="ana", wait="both/approval_2")
    run.approve("one", by="ana", wait="both/approval")
    assert run.status == "completed"
    export = tmp_path / "run.jsonl"
    export.write_text("".join(f"{json.dumps(line)}\n" for line in run.export()))
    told = verify("w", str(tmp_path), "--answers", str(export), "--seconds", "20", "--json")
    found = json.loads(told.stdout)
    assert told.exit_code == 0, told.output
    assert found["undisturbed"]["result"] == run.result


def test_a_file_of_answers_gives_them_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "w.yaml").write_text("workflow: w\ntimeline:\n  - {name: ask, wait: {for: approval, timeout: 1d}}\n")
    answers = tmp_path / "answers.yaml"
    answers.write_text("- reject: {reason: no}\n  after: 1h\n")
    told = verify("w", str(folder), "--answers", str(answers), "--json")
    assert json.loads(told.stdout)["undisturbed"]["error"] == {"type": "rejected", "step": "ask"}

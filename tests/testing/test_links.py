"""What the testing kit gives a test of callbacks, and of approvals by several."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import Conflict, NotFound
from stepwell.testing.kit import Stepwell

STEPS = """
from stepwell import wait_for_callback

sent = []

def hand_over(ctx, hours=1):
    sent.append(ctx.callback_url(hours * 3600))
    assert "callbacks" not in repr(ctx)
    return wait_for_callback(timeout=hours * 3600, result={"order": 7})

def undo(ctx):
    return ctx.callback_url("1h")

def refuse():
    raise ValueError("no")
"""
PRINT = """
workflow: print
timeline:
  - name: labels
    run: python:printing.hand_over
    input: {hours: "{{ input.hours }}"}
    diverge: [{when: "error.type == 'OutOfPaper'", skip_to: end}]
"""
UNDONE = """
workflow: undone
failure_policy: compensate
timeline:
  - {name: labels, run: python:printing.hand_over, compensate: {run: python:printing.undo}}
  - {name: stop, run: python:printing.refuse}
"""
VOTE = "workflow: vote\ntimeline: [{name: ok, wait: {for: approval, approvers: {need: 2, of: [ana, leo]}}}]"


@pytest.fixture
def stepwell(tmp_path: Path) -> Stepwell:
    (tmp_path / "printing.py").write_text(STEPS)
    kit = Stepwell(tmp_path)
    for text in (PRINT, UNDONE, VOTE):
        kit.define(text)
    return kit


def test_a_step_waits_for_what_is_posted_to_the_url_that_it_made(stepwell: Stepwell) -> None:
    run = stepwell.start("print", {"hours": 1})
    assert run.waiting_for == "callback"
    url = run.view["waiting_data"]["callback_url"]
    assert url.startswith("https://stepwell.test/callbacks/")
    stepwell.callback(url, {"labels": 3})
    assert run.steps["labels"].output == {"order": 7, "labels": 3}
    with pytest.raises(Conflict) as refused:
        stepwell.callback(url, {"labels": 4})
    assert refused.value.code == "callback_used"
    with pytest.raises(NotFound):
        stepwell.callback(url[:-3])


def test_an_error_that_is_posted_is_the_steps(stepwell: Stepwell) -> None:
    run = stepwell.start("print", {"hours": 1})
    stepwell.callback(run.view["waiting_data"]["callback_url"], error="OutOfPaper", message="tray 2")
    assert run.status == "completed"
    error = run.steps["labels"].error
    assert error is not None
    assert (error["type"], error["category"], error["message"]) == ("OutOfPaper", "external", "tray 2")


@pytest.mark.parametrize("hours", [0, 10_000])
def test_a_url_for_no_time_or_for_years_is_the_steps_mistake(stepwell: Stepwell, hours: int) -> None:
    run = stepwell.start("print", {"hours": hours})
    assert run.error is not None
    assert run.error["type"] == "timeout_too_long"


def test_a_compensation_can_wait_for_nobody(stepwell: Stepwell) -> None:
    run = stepwell.start("undone")
    stepwell.callback(run.view["waiting_data"]["callback_url"])
    (failed,) = [one["data"]["error"] for one in run.history if one["type"] == "compensation.failed"]
    assert failed["type"] == "no_callback"


def test_votes_and_who_handed_theirs_on_are_seen_while_it_waits(stepwell: Stepwell) -> None:
    run = stepwell.start("vote")
    run.delegate("leo", "bea")
    run.approve(by="ana")
    data = run.view["waiting_data"]
    assert (data["approvers"], [vote["by"] for vote in data["votes"]]) == (["bea"], ["ana"])
    assert list(data["approval_links"]) == ["bea"]
    run.approve(by="bea")
    told = [(one["type"], one["by"]) for one in run.history if one["type"].startswith(("approval", "part"))]
    assert told[1:] == [("approval.delegated", "leo"), ("part.received", "ana"), ("approval.received", "bea")]


def test_of_several_approvals_each_approver_has_a_link(stepwell: Stepwell) -> None:
    arms = ("{for: approval, approvers: {of: [lea]}}", "{for: approval, approvers: {of: [fin]}}", "{for: approval}")
    stepwell.define(f"workflow: both\ntimeline: [{{name: ok, wait: {{all: [{', '.join(arms)}]}}}}]")
    run = stepwell.start("both")
    shown = run.view["waiting_data"]
    assert list(shown["approval_links"]) == ["lea", "fin", "anyone"]
    assert (shown["approvers"], shown["need"], shown["votes"]) == (["lea", "fin"], 1, [])
    run.approve(by="fin")
    run.approve(by="bob")
    assert list(run.view["waiting_data"]["approval_links"]) == ["lea"]
    run.approve(by="lea")
    assert run.status == "completed"

"""The workflow `triage` from end to end, in memory and in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import InvalidInput
from stepwell.testing.kit import Run, Stepwell

EVENTS = Path(__file__).parent / "events"
COMMENTED = "github.issue_comment.created"


def recorded(name: str, **issue: Any) -> dict[str, Any]:
    """A recorded webhook body, its issue changed in a few places."""
    body: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    body["issue"].update(issue)
    return body


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_DATA", str(tmp_path))


def said(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    path = tmp_path / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def security(stepwell: Stepwell) -> Run:
    title = "The debug endpoint leaks tokens"
    return stepwell.start("triage", recorded("issues.opened", title=title))


def question(stepwell: Stepwell) -> Run:
    return stepwell.start("triage", recorded("issues.opened", title="How to install it?", body="On Windows?"))


def commented(stepwell: Stepwell, login: str = "tomasz-k") -> None:
    body = recorded("issue_comment.created")
    body["comment"]["user"]["login"] = login
    stepwell.event(COMMENTED, body, key=str(body["issue"]["number"]))


def test_a_bug_that_can_be_reproduced_goes_to_a_person_and_is_closed(stepwell: Stepwell, tmp_path: Path) -> None:
    run = stepwell.start("triage", recorded("issues.opened"))
    assert run.steps["classify"].output["kind"] == "bug"
    assert run.steps["reproduce"].output == {"reproduced": True}
    assert run.view["current_steps"] == ["decide"]
    run.approve({"milestone": "4.2.2"}, by="mina")
    assert run.status == "completed"
    assert run.result == {"issue": 218, "kind": "bug", "decision": "approved"}
    assert len(said(tmp_path, "closed")) == 1


def test_a_security_issue_pages_the_first_on_the_rota_and_waits_for_the_answer(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    run = security(stepwell)
    assert (run.waiting_for, run.view["waiting_data"]) == ("response", {"paged": "noor"})
    stepwell.event("MESSAGE_RECEIVED", {"from": "felix"}, key=run.state["page"]["page_id"])
    assert run.status == "waiting"  # the wrong person
    stepwell.event("MESSAGE_RECEIVED", {"from": "noor", "text": "on it"}, key=run.state["page"]["page_id"])
    assert run.status == "completed"
    assert run.state["lastResponse"] == {"from": "noor", "text": "on it"}
    assert [entry["to"] for entry in said(tmp_path, "pages")] == ["noor"]


def test_a_page_that_nobody_answers_goes_round_the_rota_and_then_to_a_person(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    run = security(stepwell)
    stepwell.advance("45m")
    assert [entry["to"] for entry in said(tmp_path, "pages")] == ["noor", "felix", "mina"]
    assert run.view["current_steps"] == ["decide"]
    assert run.view["waiting_data"]["why"]["type"] == "response_timeout"


def test_a_pager_that_is_down_is_tried_again(stepwell: Stepwell) -> None:
    stepwell.mock("page", raises=ConnectionError, times=2)
    run = security(stepwell)
    assert run.status == "running"
    stepwell.advance("10s")
    assert (run.steps["page"].attempts, run.waiting_for) == (3, "response")


def test_a_bug_without_commands_is_an_error_that_a_transition_takes(stepwell: Stepwell, tmp_path: Path) -> None:
    run = stepwell.start("triage", recorded("issues.opened", body="It crashes."))
    assert run.steps["reproduce"].status == "failed"
    assert [entry["text"] for entry in said(tmp_path, "comments")] == ["Which version, and which commands, exactly?"]
    assert run.view["current_steps"] == ["settle"]


def test_a_sandbox_that_stays_down_sends_the_bug_to_a_person_with_the_reason(stepwell: Stepwell) -> None:
    sandbox = stepwell.mock("reproduce", raises=ConnectionError("no sandbox"))
    run = stepwell.start("triage", recorded("issues.opened"))
    stepwell.advance("1m")
    assert len(sandbox.calls) == 3
    assert run.view["current_steps"] == ["decide"]
    assert run.view["waiting_data"]["why"]["message"] == "no sandbox"


def test_a_bug_of_a_step_that_no_transition_names_fails_the_run(stepwell: Stepwell) -> None:
    stepwell.mock("reproduce", raises=ZeroDivisionError)
    run = stepwell.start("triage", recorded("issues.opened"))
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("ZeroDivisionError", "reproduce")


def test_an_answered_question_is_closed_after_three_days_of_silence(stepwell: Stepwell, tmp_path: Path) -> None:
    run = question(stepwell)
    assert run.waiting_for == "event"
    assert [entry["text"] for entry in said(tmp_path, "comments")] == ["This may help: docs/install.md"]
    stepwell.advance("71h")
    assert run.status == "waiting"
    stepwell.advance("1h")
    assert (run.status, run.result["decision"]) == ("completed", "none")


def test_a_question_whose_author_comes_back_goes_to_a_person(stepwell: Stepwell) -> None:
    run = question(stepwell)
    commented(stepwell, "somebody-else")
    assert run.view["current_steps"] == ["settle"]
    commented(stepwell)
    assert run.view["current_steps"] == ["decide"]


def test_a_comment_that_came_before_the_desk_waited_for_it_counts(stepwell: Stepwell) -> None:
    commented(stepwell)
    run = question(stepwell)
    assert run.view["current_steps"] == ["decide"]


def test_what_is_none_of_these_goes_to_a_person_who_may_say_no(stepwell: Stepwell) -> None:
    run = stepwell.start("triage", recorded("issues.opened", title="Love it", body=None))
    assert run.view["current_steps"] == ["decide"]
    run.reject("not for us", by="mina")
    assert (run.status, run.result["decision"]) == ("completed", "rejected")


def test_a_cancelled_triage_closes_nothing(stepwell: Stepwell, tmp_path: Path) -> None:
    run = question(stepwell)
    assert run.cancel("spam", by="mina")
    stepwell.advance("72h")
    assert (run.status, said(tmp_path, "closed")) == ("cancelled", [])


def test_a_body_of_another_webhook_is_refused(stepwell: Stepwell) -> None:
    with pytest.raises(InvalidInput, match="action"):
        stepwell.start("triage", {**recorded("issues.opened"), "action": "closed"})


def test_without_a_default_a_kind_that_no_transition_names_fails_the_run(stepwell: Stepwell) -> None:
    stepwell.define("""
        workflow: narrow
        nodes:
          classify:
            run: python:desk.classify
            timeout: 30s
            transitions: [{to: page, when: "result.kind == 'security'"}]
          page: {}
    """)
    run = stepwell.start("narrow", {"issue": recorded("issues.opened")["issue"]})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("no_matching_transition", "classify")
    assert run.steps["classify"].status == "completed"  # its result is kept

"""The agents `hiring` and `screening` from end to end, in memory and in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell

THREAD = "thread-7"
CANDIDATE: dict[str, Any] = {"name": "Ana", "position": "engineer", "thread": THREAD}


@pytest.fixture(autouse=True)
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIRING_DATA", str(tmp_path))


def noted(folder: Path, book: str) -> list[dict[str, Any]]:
    path = folder / f"{book}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def says(stepwell: Stepwell, text: str, who: str = "candidate") -> None:
    stepwell.event("MESSAGE_RECEIVED", {"from": who, "message": text}, key=THREAD)


def screened(stepwell: Stepwell, answer: str = "I built and shipped a payment system, and maintain it.") -> Run:
    """A candidate who was interested and has answered the question."""
    run = stepwell.start("hiring", CANDIDATE)
    says(stepwell, "Yes, I am.")
    assert run.waiting_for == "agent"
    says(stepwell, answer)
    return run


def test_a_candidate_is_screened_tested_signs_and_is_enrolled(stepwell: Stepwell, tmp_path: Path) -> None:
    run = screened(stepwell)
    assert (run.waiting_for, run.view["waiting_data"]["documents"]) == ("document", ["cv", "passport"])
    for document in ("cv", "passport"):
        url = f"https://files.example/{document}"
        stepwell.event("DOCUMENT_UPLOADED", {"document": document, "url": url}, key=THREAD)
    assert run.waiting_for == "test"
    stepwell.event("TEST_COMPLETED", {"score": 81, "result": "passed"}, key=THREAD)
    assert run.waiting_for == "signature"
    stepwell.event(
        "SIGNATURE_COMPLETED", {"url": "https://files.example/contract", "signedAt": "2030-01-02"}, key=THREAD
    )
    assert (run.status, run.result) == ("completed", {"employee": "E-0001"})
    (employee,) = noted(tmp_path, "staff")
    assert employee["papers"] == ["cv", "passport", "https://files.example/contract"]


def test_the_screening_agents_variables_become_those_of_the_agent_that_asked(stepwell: Stepwell) -> None:
    run = screened(stepwell)
    assert run.state["rating"] == 4
    assert (run.state["childExecutionStatus"], run.state["childExecutionSuccess"]) == ("completed", True)
    assert run.state["lastResponse"].startswith("I built")
    assert run.state["interest"]["message"] == "Yes, I am."


def test_each_agent_keeps_its_own_conversation(stepwell: Stepwell) -> None:
    run = screened(stepwell)
    told = [(one["role"], one["content"]) for one in run.state["conversationHistory"]]
    assert told == [
        ("assistant", "Hello Ana! Are you still interested in the position engineer?"),
        ("user", "Yes, I am."),
    ]


def test_somebody_elses_message_does_not_answer(stepwell: Stepwell) -> None:
    run = stepwell.start("hiring", CANDIDATE)
    says(stepwell, "Any news?", who="manager")
    assert run.waiting_for == "response"
    assert run.view["waiting_data"] == {"threadId": THREAD, "expectedFrom": "candidate", "timeout": "24h"}


def test_a_candidate_who_is_silent_is_reminded_each_day_and_given_up_on_the_second(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    run = stepwell.start("hiring", CANDIDATE)
    stepwell.advance("24h")
    assert (run.waiting_for, len(noted(tmp_path, "messages"))) == ("response", 2)
    stepwell.advance("24h")
    assert run.status == "timed_out"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("response_timeout", "interest")


@pytest.mark.parametrize("answer", ["Nothing yet.", " "], ids=["low rating", "screening fails"])
def test_a_candidate_whom_the_screening_does_not_recommend_is_declined(
    stepwell: Stepwell, tmp_path: Path, answer: str
) -> None:
    run = screened(stepwell, answer)
    assert run.status == "completed"
    assert "somebody else" in noted(tmp_path, "messages")[-1]["message"]
    assert noted(tmp_path, "staff") == []


def test_cancelling_the_agent_ends_the_agent_that_it_asked(stepwell: Stepwell, tmp_path: Path) -> None:
    run = stepwell.start("hiring", CANDIDATE)
    says(stepwell, "Yes, I am.")
    assert run.waiting_for == "agent"
    assert run.cancel("the position is gone", by="kim")
    says(stepwell, "I built a house.")
    assert (run.status, run.view["cancelled_by"]) == ("cancelled", "kim")
    assert len(noted(tmp_path, "messages")) == 2

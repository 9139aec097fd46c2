"""The agent loop `assistant`: what it asks people, what it does with a no, and how it goes on when it gets long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell

TASK = "A customer writes about A-1, A-2 and A-99. Pay back what arrived broken."
LONG_TASK = "Look after A-1, A-2, A-3, A-4, A-5, A-6, A-7 and A-8. Pay back what arrived broken."


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSISTANT_DATA", str(tmp_path))
    return tmp_path / "bank.txt"


def paid(bank: Path) -> list[str]:
    """The orders that were paid back, sorted: tools that run together come in any order."""
    return sorted(line.split()[1] for line in bank.read_text().splitlines()) if bank.exists() else []


def answer(run: Run) -> list[str]:
    assert run.status == "completed"
    text: str = run.result["answer"]
    return text.splitlines()


def asked(run: Run) -> dict[str, str]:
    """What people are asked for, by order: the id of the wait."""
    return {branch["waiting_data"]["order_id"]: branch["id"] for branch in run.branches() if branch["waiting_for"]}


def continued(run: Run) -> list[dict[str, Any]]:
    """What the run began anew with, each time."""
    return [entry["data"]["input"] for entry in run.history if entry["type"] == "function.continued"]


def test_a_person_is_asked_before_money_is_paid_back(stepwell: Stepwell, bank: Path) -> None:
    run = stepwell.start("assistant", {"task": TASK})
    assert (run.waiting_for, paid(bank)) == ("approval", [])
    assert run.view["waiting_data"]["type"] == "refund"
    run.approve(by="ana")
    assert answer(run)[:2] == ["A-1: paid back 19.90 EUR", "A-2: desk, 389.00 EUR, arrived"]
    assert (paid(bank), run.state["turns"]) == (["A-1"], 3)


def test_a_no_is_what_the_model_gets_to_read(stepwell: Stepwell, bank: Path) -> None:
    run = stepwell.start("assistant", {"task": TASK})
    run.reject("he broke it himself", by="ana")
    assert (answer(run)[0], paid(bank)) == ("refund A-1: refused by a person: he broke it himself (by ana)", [])


def test_who_is_not_answered_for_two_days_does_without(stepwell: Stepwell, bank: Path) -> None:
    run = stepwell.start("assistant", {"task": TASK})
    stepwell.advance("2d")
    assert (answer(run)[0], paid(bank)) == ("refund A-1: nobody has allowed it", [])


def test_a_tool_that_fails_ends_nothing(stepwell: Stepwell) -> None:
    run = stepwell.start("assistant", {"task": "What about A-99?"})
    assert answer(run) == ["look_up A-99: failed: A-99 is no order of ours"]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ({"tool": "shout", "arguments": {}}, "shout: there is no such tool"),
        ({"tool": "look_up", "arguments": {"order": "A-1"}}, "look_up A-1: failed: the arguments do not fit look_up"),
    ],
)
def test_what_a_model_makes_up_is_told_to_it(stepwell: Stepwell, call: dict[str, Any], result: str) -> None:
    model = stepwell.mock("ask", returns={"role": "assistant", "calls": [call]}, times=2)
    run = stepwell.start("assistant", {"task": "Nothing in particular."})
    assert run.status == "completed"
    assert result in json.dumps(model.calls[1])


def test_each_of_the_refunds_is_asked_for_and_they_are_asked_for_together(stepwell: Stepwell, bank: Path) -> None:
    run = stepwell.start("assistant", {"task": LONG_TASK})
    waits = asked(run)
    assert sorted(waits) == ["A-1", "A-3", "A-5"]
    run.approve(by="ana", wait=waits["A-5"])
    run.reject("he broke it himself", by="ana", wait=waits["A-3"])
    assert (run.status, paid(bank)) == ("waiting", ["A-5"])
    run.approve(by="ana", wait=waits["A-1"])
    assert (len(answer(run)), paid(bank)) == (8, ["A-1", "A-5"])


def test_a_long_conversation_is_shortened_and_begun_anew(stepwell: Stepwell) -> None:
    run = stepwell.start("assistant", {"task": LONG_TASK})
    (given,) = continued(run)
    assert given["conversation"][0]["text"] == LONG_TASK
    assert "A-1: lamp" in given["conversation"][1]["text"]  # what the older messages come to
    assert len(given["conversation"]) == 5
    assert run.state["turns"] == 4  # counted over all


def test_a_model_that_is_overloaded_is_asked_again(stepwell: Stepwell) -> None:
    stepwell.mock("ask", raises=ConnectionError("503"), times=3)
    run = stepwell.start("assistant", {"task": "What about A-2?"})
    stepwell.advance("30s")
    assert answer(run) == ["A-2: desk, 389.00 EUR, arrived"]


def test_a_model_that_never_ends_is_stopped(stepwell: Stepwell) -> None:
    call = {"tool": "look_up", "arguments": {"order_id": "A-2"}}
    model = stepwell.mock("ask", returns={"role": "assistant", "calls": [call]})
    run = stepwell.start("assistant", {"task": "Look again."})
    assert run.result == {"answer": None, "turns": 20}
    assert max(len(given["conversation"]) for given in model.calls) <= 8

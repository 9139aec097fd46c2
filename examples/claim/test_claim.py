"""`claim`: a machine of Step Functions as it is, in memory and virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.claim.insurer import RegisterBusy
from stepwell.testing.kit import Run, Stepwell

EVENTS = Path(__file__).parent / "events"


@pytest.fixture(autouse=True)
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where inspectors find what they are asked."""
    monkeypatch.setenv("CLAIM_DATA", str(tmp_path))
    return tmp_path


def claim(policy: str, *photos: str) -> dict[str, Any]:
    return {"policy": policy, "number": 1, "photos": list(photos)}


def event(name: str) -> Any:
    return json.loads((EVENTS / name).read_text())


def error(run: Run) -> str:
    assert run.status == "failed"
    assert run.error is not None
    return f"{run.error['type']}: {run.error['message']}"


def test_a_small_damage_is_paid_without_the_excess(stepwell: Stepwell) -> None:
    run = stepwell.start("claim", claim("P-100", "dent.jpg", "scratch.jpg"))
    assert run.status == "completed"
    assert run.result["paid"] == 640 + 180 - 300


def test_a_large_sum_is_inspected_and_paid_after_three_days(stepwell: Stepwell, inbox: Path) -> None:
    run = stepwell.start("claim", event("bumper.json"))
    assert run.waiting_for == "callback"
    stepwell.callback(json.loads((inbox / "P-100.json").read_text())["token"], {"by": "ida"})
    assert run.waiting_for == "sleep"
    stepwell.advance("3d")
    assert run.result["paid"] == 1450 + 2100 + 180 - 300


def test_an_inspector_who_finds_a_fraud_refuses_the_claim(stepwell: Stepwell, inbox: Path) -> None:
    run = stepwell.start("claim", event("bumper.json"))
    assert run.waiting_for == "callback"
    token = json.loads((inbox / "P-100.json").read_text())["token"]
    stepwell.callback(token, error="Fraud", message="another car")
    assert error(run) == "Fraud: another car"


def test_a_claim_that_nobody_inspects_for_two_weeks_is_refused(stepwell: Stepwell) -> None:
    run = stepwell.start("claim", event("bumper.json"))
    stepwell.advance("14d")
    assert error(run).startswith("States.Timeout: ")


def test_a_gold_policy_does_not_wait(stepwell: Stepwell) -> None:
    run = stepwell.start("claim", claim("P-200", "bumper.jpg", "door.jpg"))
    assert run.result["paid"] == 1450 + 2100


def test_what_is_below_the_excess_is_not_paid(stepwell: Stepwell) -> None:
    run = stepwell.start("claim", claim("P-100", "scratch.jpg"))
    assert run.result == {"paid": 0}


def test_an_unknown_policy_is_refused_with_the_error_of_the_register(stepwell: Stepwell) -> None:
    run = stepwell.start("claim", event("unknown.json"))
    name, _, cause = error(run).partition(": ")
    assert name == "NoSuchPolicy"
    assert json.loads(cause)["errorMessage"] == "there is no policy P-999"


def test_a_busy_register_is_asked_again(stepwell: Stepwell) -> None:
    busy = stepwell.mock("Find the policy", raises=RegisterBusy("try again"), times=2)
    run = stepwell.start("claim", claim("P-100", "dent.jpg"))
    stepwell.advance("6s")
    assert run.result["paid"] == 640 - 300
    assert len(busy.calls) == 2


def test_a_register_that_stays_busy_fails_the_claim(stepwell: Stepwell) -> None:
    stepwell.mock("Find the policy", raises=RegisterBusy("try again"))
    run = stepwell.start("claim", claim("P-100", "dent.jpg"))
    stepwell.advance("1h")
    assert error(run) == "RegisterBusy: try again"

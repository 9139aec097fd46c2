"""The workflow `onboarding` from end to end, in memory and in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell

CUSTOMER: dict[str, Any] = {"company": "Lumen", "domain": "lumen.example", "email": "ana@lumen.example", "seats": 12}


@pytest.fixture(autouse=True)
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_DATA", str(tmp_path))


def noted(folder: Path, book: str) -> list[dict[str, Any]]:
    path = folder / f"{book}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def statuses(run: Run) -> dict[str, str]:
    return {name: step.status for name, step in run.steps.items()}


def verify(stepwell: Stepwell) -> None:
    stepwell.event("domain.verified", {"by": "dns"}, key=CUSTOMER["domain"])


def test_while_the_domain_is_being_verified_everything_else_is_done(stepwell: Stepwell) -> None:
    run = stepwell.start("onboarding", CUSTOMER)
    assert statuses(run) == {
        "create-account": "completed",
        "provision": "completed",
        "verify-domain": "waiting",
        "invite": "completed",
        "remind": "completed",
        "go-live": "pending",
    }
    assert (run.view["current_steps"], run.view["progress"]) == (["verify-domain"], "4/6")


def test_the_doors_open_when_the_domain_is_verified(stepwell: Stepwell) -> None:
    run = stepwell.start("onboarding", CUSTOMER)
    verify(stepwell)
    assert run.status == "completed"
    assert run.result["go-live"] == {"account": "acc-1", "url": "https://acc-1.example", "invited": True}
    assert run.result["verify-domain"] == {"by": "dns"}


def test_a_domain_that_was_verified_before_holds_nothing_up(stepwell: Stepwell) -> None:
    verify(stepwell)
    assert stepwell.start("onboarding", CUSTOMER).status == "completed"


def test_an_invitation_that_cannot_be_sent_is_skipped_and_so_is_its_reminder(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    stepwell.mock("invite", raises=ValueError("no such mailbox"))
    run = stepwell.start("onboarding", CUSTOMER)
    verify(stepwell)
    assert (statuses(run)["invite"], statuses(run)["remind"], run.status) == ("skipped", "skipped", "completed")
    assert run.result["go-live"]["invited"] is False
    assert [entry["email"] for entry in noted(tmp_path, "calls")] == [CUSTOMER["email"]]
    assert noted(tmp_path, "diary") == []


def test_a_workspace_that_is_slow_to_come_is_tried_again_without_holding_up_the_others(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    stepwell.mock("provision", raises=ConnectionError, times=2)
    run = stepwell.start("onboarding", CUSTOMER)
    assert (statuses(run)["provision"], statuses(run)["remind"]) == ("running", "completed")
    verify(stepwell)
    stepwell.advance("1m")
    assert (run.steps["provision"].attempts, run.status) == (3, "completed")
    assert len(noted(tmp_path, "workspaces")) == 1


def test_more_seats_than_there_are_fail_the_run_and_end_its_wait(stepwell: Stepwell) -> None:
    run = stepwell.start("onboarding", {**CUSTOMER, "seats": 501})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("TooManySeats", "provision")
    assert (statuses(run)["verify-domain"], statuses(run)["go-live"]) == ("cancelled", "pending")


def test_a_domain_that_nobody_verifies_ends_the_run_after_two_weeks(stepwell: Stepwell) -> None:
    run = stepwell.start("onboarding", CUSTOMER)
    stepwell.advance("14d")
    assert run.status == "timed_out"
    assert run.error is not None
    assert run.error["step"] == "verify-domain"


def test_a_customer_who_changes_her_mind_gets_no_doors(stepwell: Stepwell) -> None:
    run = stepwell.start("onboarding", CUSTOMER)
    assert run.cancel("withdrew", by="kim")
    verify(stepwell)
    assert (run.status, statuses(run)["go-live"]) == ("cancelled", "pending")

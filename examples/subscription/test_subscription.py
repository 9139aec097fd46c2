"""The workflow `subscription`: years of it, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell


@pytest.fixture(autouse=True)
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BILLING_DATA", str(tmp_path))
    return tmp_path


def lines(books: Path, book: str) -> list[dict[str, Any]]:
    path = books / f"{book}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def amounts(books: Path) -> list[str]:
    return [line["amount"] for line in lines(books, "payments")]


def charged(run: Run) -> list[str]:
    """The days on which a charge went through."""
    return [one["at"][:10] for one in run.history if (one["type"], one["step"]) == ("step.completed", "charge")]


def test_a_year_is_twelve_charges_each_on_the_day_it_began(stepwell: Stepwell, books: Path) -> None:
    run = stepwell.start("subscription", {"customer": "kim", "plan": "basic"})
    stepwell.advance("364d")
    assert charged(run) == [f"2030-{month:02d}-01" for month in range(1, 13)]
    assert amounts(books) == ["9.00"] * 12
    assert (run.status, run.state["period"], run.state["paid_until"]) == ("waiting", 12, "2031-01-01T09:00:00+00:00")


def test_what_began_on_the_31st_is_renewed_on_the_last_day_of_a_shorter_month(stepwell: Stepwell) -> None:
    stepwell.advance("30d")
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("100d")
    assert charged(run) == ["2030-01-31", "2030-02-28", "2030-03-31", "2030-04-30"]


def test_who_cancels_has_what_is_paid_for_and_pays_no_more(stepwell: Stepwell, books: Path) -> None:
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("40d")
    stepwell.event("subscription.cancel", key="leo")  # somebody else
    assert run.status == "waiting"
    stepwell.event("subscription.cancel", key="kim")
    assert (run.status, len(amounts(books))) == ("completed", 2)
    assert run.result == {"ended": "cancelled", "plan": "basic", "paid_until": "2030-03-01T09:00:00+00:00"}


def test_an_upgrade_is_paid_for_the_days_that_are_left_and_lasts(stepwell: Stepwell, books: Path) -> None:
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("16d")
    stepwell.event("subscription.upgrade", {"plan": "team"}, key="kim")
    assert (run.status, run.state["plan"]) == ("waiting", "team")
    stepwell.advance("16d")
    assert amounts(books) == ["9.00", "10.00", "29.00"]
    assert charged(run) == ["2030-01-01", "2030-02-01"]  # the upgrade has moved nothing


def test_an_upgrade_to_a_plan_that_there_is_not_is_nobodys(stepwell: Stepwell, books: Path) -> None:
    run = stepwell.start("subscription", {"customer": "kim"})
    for payload in ({"plan": "gold"}, {}):
        stepwell.event("subscription.upgrade", payload, key="kim")
    assert (run.status, run.state["plan"], amounts(books)) == ("waiting", "basic", ["9.00"])


def test_an_upgrade_that_cannot_be_paid_changes_nothing(
    stepwell: Stepwell, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.settle()
    monkeypatch.setenv("BILLING_NO_MONEY", "kim")
    stepwell.event("subscription.upgrade", {"plan": "pro"}, key="kim")
    assert (run.state["plan"], run.waiting_for) == ("basic", "event")
    assert lines(books, "mails")[-1]["text"].endswith("you stay with basic")


def test_a_new_card_is_tried_at_once_and_the_renewals_stay_where_they_were(
    stepwell: Stepwell, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_NO_MONEY", "kim,leo")
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("1d")
    assert (amounts(books), run.waiting_for) == ([], "event")
    monkeypatch.setenv("BILLING_NO_MONEY", "leo")
    stepwell.event("card.updated", key="kim")
    assert (charged(run), len(lines(books, "mails"))) == (["2030-01-02"], 1)
    stepwell.advance("30d")
    assert charged(run) == ["2030-01-02", "2030-02-01"]


def test_a_card_that_stays_empty_ends_it_after_three_tries_and_fifteen_days(
    stepwell: Stepwell, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("30d")
    monkeypatch.setenv("BILLING_NO_MONEY", "kim")
    stepwell.advance("15d")
    assert run.status == "waiting"
    stepwell.advance("1d")
    assert run.result == {"ended": "unpaid", "plan": "basic", "paid_until": "2030-02-01T09:00:00+00:00"}
    failed = [one["at"][:10] for one in run.history if one["type"] == "step.failed"]
    assert failed == ["2030-02-01", "2030-02-04", "2030-02-09"]
    assert len(lines(books, "mails")) == 4


def test_who_cancels_instead_of_bringing_a_new_card_is_let_go(
    stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_NO_MONEY", "kim")
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("1d")
    stepwell.event("subscription.cancel", key="kim")
    assert run.result == {"ended": "cancelled", "plan": "basic", "paid_until": "2030-01-01T09:00:00+00:00"}


def test_a_bank_that_is_away_is_asked_again_and_paid_once(stepwell: Stepwell, books: Path) -> None:
    stepwell.mock("charge", raises=ConnectionError, times=2)
    run = stepwell.start("subscription", {"customer": "kim"})
    stepwell.advance("1h")
    assert (run.steps["charge"].attempts, amounts(books), lines(books, "mails")) == (3, ["9.00"], [])

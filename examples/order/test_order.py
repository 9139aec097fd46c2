"""The workflow `order` from end to end, in memory and in virtual time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepwell.runtime.steps.threads import AttemptTimeoutError
from stepwell.testing.kit import Run, Stepwell

EVENTS = Path(__file__).parent / "events"
PAID = "stripe.payment_intent.succeeded"


def recorded(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return body


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DATA", str(tmp_path))


def pay(stepwell: Stepwell, name: str = "payment_intent.succeeded") -> None:
    body = recorded(name)
    stepwell.event(f"stripe.{name}", body, key=body["data"]["object"]["metadata"]["order_id"], event_id=body["id"])


def approved(stepwell: Stepwell) -> Run:
    run = stepwell.start("order", recorded("order"))
    run.approve(by="ana")
    return run


def rows(tmp_path: Path, table: str) -> list[Mapping[str, Any]]:
    database = sqlite3.connect(tmp_path / "backoffice.db")
    database.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in database.execute(f"SELECT * FROM {table}")]  # noqa: S608
    finally:
        database.close()


def test_a_large_order_is_approved_paid_shipped_and_confirmed(stepwell: Stepwell, tmp_path: Path) -> None:
    run = stepwell.start("order", recorded("order"))
    assert (run.status, run.waiting_for) == ("waiting", "approval")
    asked = {"order_id": "A-1001", "total": "1229.50", "type": "manager"}
    assert asked.items() <= run.view["waiting_data"].items()
    run.approve(by="ana")
    assert run.view["current_steps"] == ["payment"]
    pay(stepwell)
    assert run.phase == "sleeping"
    stepwell.advance("3s")
    assert run.status == "completed"
    assert run.result == {"order_id": "A-1001", "tracking": "PX000001"}
    assert [row["amount"] for row in rows(tmp_path, "ledger")] == ["1229.50"]
    assert [row["recipient"] for row in rows(tmp_path, "mails")] == ["ines@customer.example"]


def test_a_small_order_needs_no_approval(stepwell: Stepwell) -> None:
    small = {**recorded("order"), "items": [{"sku": "LAMP-07", "quantity": 3, "price": "19.90"}]}
    run = stepwell.start("order", small)
    assert run.view["current_steps"] == ["payment"]
    assert "approve" not in run.steps


def test_what_is_not_in_stock_ends_the_run_with_an_error_that_says_what(stepwell: Stepwell) -> None:
    run = stepwell.start("order", {**recorded("order"), "items": [{"sku": "DESK-21", "quantity": 13, "price": "1.00"}]})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["data"]) == ("OutOfStock", {"skus": ["DESK-21"]})


def test_a_rejected_order_fails_with_the_managers_reason(stepwell: Stepwell) -> None:
    run = stepwell.start("order", recorded("order"))
    run.reject("over budget", by="ana")
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("rejected", "over budget (by ana)")


def test_after_a_day_the_managers_are_reminded_and_after_two_the_run_times_out(
    stepwell: Stepwell, tmp_path: Path
) -> None:
    run = stepwell.start("order", recorded("order"))
    stepwell.advance("24h")
    assert run.status == "waiting"
    assert [row["recipient"] for row in rows(tmp_path, "mails")] == ["managers@shop.example"]
    stepwell.advance("24h")
    assert run.status == "timed_out"
    assert run.error is not None
    assert run.error["type"] == "approval_timeout"
    assert len(rows(tmp_path, "mails")) == 2


def test_a_reminded_manager_can_still_approve(stepwell: Stepwell) -> None:
    run = stepwell.start("order", recorded("order"))
    stepwell.advance("30h")
    run.approve(by="ana")
    assert run.view["current_steps"] == ["payment"]


def test_a_payment_that_came_before_the_approval_is_not_lost(stepwell: Stepwell) -> None:
    run = stepwell.start("order", recorded("order"))
    pay(stepwell)
    assert run.waiting_for == "approval"
    run.approve(by="ana")
    assert run.phase == "sleeping"  # it found its payment waiting: charged and shipped


def test_stripe_sending_its_event_twice_books_and_ships_once(stepwell: Stepwell, tmp_path: Path) -> None:
    run = approved(stepwell)
    pay(stepwell)
    pay(stepwell)
    stepwell.advance("3s")
    pay(stepwell)
    assert run.status == "completed"
    assert [row["asked"] for row in rows(tmp_path, "ledger")] == [1]
    assert [row["asked"] for row in rows(tmp_path, "parcels")] == [1]


def test_a_declined_card_fails_the_run_with_the_banks_words(stepwell: Stepwell) -> None:
    run = approved(stepwell)
    pay(stepwell, "payment_intent.payment_failed")
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("card_declined", "Your card has insufficient funds.")


def test_a_payment_over_another_amount_is_not_booked(stepwell: Stepwell) -> None:
    run = approved(stepwell)
    body = recorded("payment_intent.succeeded")
    body["data"]["object"]["amount_received"] = 100
    stepwell.event(PAID, body, key="A-1001")
    assert run.error is not None
    assert (run.status, run.error["category"]) == ("failed", "validation")


def test_a_ledger_that_does_not_answer_in_time_is_asked_again_at_most_twice(stepwell: Stepwell) -> None:
    ledger = stepwell.mock("charge", raises=AttemptTimeoutError)
    run = approved(stepwell)
    pay(stepwell)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "step_timeout"
    assert len(ledger.calls) == 3


def test_a_ledger_that_answers_at_the_second_try_is_enough(stepwell: Stepwell) -> None:
    stepwell.mock("charge", raises=AttemptTimeoutError, times=1)
    run = approved(stepwell)
    pay(stepwell)
    assert run.phase == "sleeping"


def test_a_parcel_whose_confirmation_got_lost_is_tried_again_and_shipped_once(
    stepwell: Stepwell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_LOST_ANSWERS", "2")
    run = approved(stepwell)
    pay(stepwell)
    assert run.steps["ship"].attempts == 1
    stepwell.advance("3s")  # two retries, after 1 s and 2 s
    assert run.steps["ship"].attempts == 3
    assert run.steps["ship"].output == {"tracking": "PX000001", "pieces": 3}
    assert [row["asked"] for row in rows(tmp_path, "parcels")] == [3]
    stepwell.advance("3s")
    assert run.status == "completed"


def test_a_carrier_that_never_answers_fails_the_run_after_four_retries(
    stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_LOST_ANSWERS", "99")
    run = approved(stepwell)
    pay(stepwell)
    stepwell.advance("5m")
    assert (run.status, run.steps["ship"].attempts) == ("failed", 5)
    assert run.error is not None
    assert run.error["category"] == "transient"


def test_a_cancelled_order_takes_no_payment_and_ships_nothing(stepwell: Stepwell) -> None:
    run = approved(stepwell)
    assert run.cancel("changed their mind", by="ines")
    pay(stepwell)
    assert run.status == "cancelled"
    assert "charge" not in run.steps
    assert not run.cancel("twice")


def test_an_unpaid_order_times_out_after_a_week(stepwell: Stepwell) -> None:
    run = approved(stepwell)
    stepwell.advance("7d")
    assert run.status == "timed_out"


def test_two_orders_do_not_take_each_others_payment(stepwell: Stepwell) -> None:
    other = stepwell.start("order", {**recorded("order"), "order_id": "A-1002"})
    other.approve(by="ana")
    run = approved(stepwell)
    pay(stepwell)
    assert run.phase == "sleeping"
    assert other.view["current_steps"] == ["payment"]

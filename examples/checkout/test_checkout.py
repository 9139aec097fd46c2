"""The workflow `checkout`: what Stripe says and how often, and what becomes of goods and money when it ends badly."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.checkout import till
from stepwell.testing.kit import Run, Stepwell

HERE = Path(__file__).parent
ORDER: dict[str, Any] = json.loads((HERE / "events" / "order.json").read_text())
FAR = {**ORDER, "country": "NO"}  # where no carrier goes
SECRET = "whsec_of_the_endpoint"  # noqa: S105
COMPLETED, SUCCEEDED = "checkout.session.completed", "payment_intent.succeeded"
EXPIRED = {"type": "checkout.session.expired", "id": "evt_expired"}

Tell = Callable[..., int]


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILL_DATA", str(tmp_path))


@pytest.fixture
def tell(stepwell: Stepwell) -> Tell:
    webhooks = stepwell.webhooks({"STRIPE_SIGNING_SECRET": SECRET})

    def tell(name: str, event: dict[str, Any] | None = None, secret: str = SECRET, **changed: Any) -> int:
        """One of Stripe's events, signed with the time it is sent at: a retry has another signature."""
        recorded = json.loads((HERE / "events" / f"{name}.json").read_text())
        recorded["data"]["object"].update(changed)
        body = json.dumps({**recorded, **(event or {})})
        signed = f"{webhooks.now_seconds}.{body}".encode()
        proof = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return webhooks.deliver("stripe", body, {"Stripe-Signature": f"t={webhooks.now_seconds},v1={proof}"})

    return tell


def undone(run: Run) -> list[str]:
    return [entry["step"] for entry in run.history if entry["type"] == "step.compensated"]


def pieces_kept() -> int:
    return sum(line["pieces"] for line in till.lines("goods"))


def reason(run: Run) -> object:
    assert run.error is not None
    return run.error["type"]


@pytest.mark.parametrize("name", [COMPLETED, SUCCEEDED])
def test_a_paid_order_is_booked_and_shipped(stepwell: Stepwell, tell: Tell, name: str) -> None:
    run = stepwell.start("checkout", ORDER)
    assert (run.waiting_for, pieces_kept()) == ("event", 4)
    assert tell(name) == 202
    assert run.status == "completed"
    assert [line["amount_cents"] for line in till.lines("payments")] == [44_870]
    assert [line["pieces"] for line in till.lines("parcels")] == [4]


def test_an_event_that_stripe_repeats_changes_nothing(stepwell: Stepwell, tell: Tell) -> None:
    """At once, while the order is being shipped, and hours after it has ended."""
    stepwell.mock("ship", raises=ConnectionError, times=1)
    run = stepwell.start("checkout", ORDER)
    assert [tell(COMPLETED), tell(COMPLETED)] == [202, 202]
    assert run.view["current_steps"] == ["ship"]
    assert tell(COMPLETED) == 202
    stepwell.advance("1s")
    assert run.status == "completed"
    before = run.history
    stepwell.advance("5h")
    assert tell(COMPLETED) == 202
    assert run.history == before
    assert sum(entry["type"] == "event.received" for entry in before) == 1
    assert [len(till.lines(kind)) for kind in ("payments", "parcels", "mails", "refunds")] == [1, 1, 1, 0]
    assert stepwell.start("checkout", ORDER).status == "waiting"  # no repeat is left over that could pay for it again


def test_the_two_events_of_one_payment_book_it_once(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", ORDER)
    tell(SUCCEEDED)
    tell(COMPLETED)
    assert run.status == "completed"
    assert (len(till.lines("payments")), len(till.lines("parcels"))) == (1, 1)
    stepwell.advance("1h")
    assert stepwell.start("checkout", ORDER).status == "waiting"  # the one that was not taken is gone


def test_a_payment_that_is_told_before_the_order_is_there_is_not_lost(stepwell: Stepwell, tell: Tell) -> None:
    tell(COMPLETED)
    assert stepwell.start("checkout", ORDER).status == "completed"


def test_a_session_that_is_complete_but_not_paid_ships_nothing_yet(stepwell: Stepwell, tell: Tell) -> None:
    """As with a bank debit: the money comes later, or not at all."""
    run = stepwell.start("checkout", ORDER)
    tell(COMPLETED, payment_status="unpaid", payment_intent=None)
    assert run.view["current_steps"] == ["pay"]
    tell(SUCCEEDED)
    assert run.status == "completed"


def test_a_forged_payment_ships_nothing(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", ORDER)
    assert tell(COMPLETED, secret="whsec_a_guess") == 401  # noqa: S106
    assert (run.view["current_steps"], till.lines("parcels")) == (["pay"], [])


def test_an_expired_session_frees_the_goods(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", ORDER)
    assert tell(COMPLETED, EXPIRED, payment_status="unpaid", payment_intent=None) == 202
    assert (run.status, reason(run), undone(run)) == ("compensated", "session_expired", ["reserve"])
    assert (pieces_kept(), till.lines("refunds")) == (0, [])


def test_two_hours_without_a_word_free_the_goods_too(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", ORDER)
    stepwell.advance("119m")
    assert run.status == "waiting"
    stepwell.advance("1m")
    assert (run.status, reason(run), pieces_kept()) == ("compensated", "not_paid_in_time", 0)


def test_an_order_that_cannot_be_shipped_is_paid_back_and_its_goods_are_free(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", FAR)
    tell(COMPLETED)
    assert (run.status, reason(run), undone(run)) == ("compensated", "NotServed", ["book", "reserve"])
    assert [line["amount_cents"] for line in till.lines("refunds")] == [44_870]
    assert (pieces_kept(), till.lines("mails")) == (0, [])


def test_an_event_that_comes_again_while_an_order_is_undone_refunds_once(stepwell: Stepwell, tell: Tell) -> None:
    stepwell.mock("book.compensate", raises=ConnectionError, times=2)
    run = stepwell.start("checkout", FAR)
    tell(COMPLETED)
    assert undone(run) == []
    tell(COMPLETED)
    stepwell.advance("1m")
    assert (run.status, undone(run), len(till.lines("refunds"))) == ("compensated", ["book", "reserve"], 1)


def test_another_amount_than_the_orders_goes_back(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", ORDER)
    tell(COMPLETED, amount_total=100)
    assert (run.status, reason(run), undone(run)) == ("compensated", "wrong_amount", ["book", "reserve"])
    assert [line["amount_cents"] for line in till.lines("refunds")] == [100]


def test_a_mail_that_cannot_be_sent_calls_no_parcel_back(stepwell: Stepwell, tell: Tell) -> None:
    stepwell.mock("thank", raises=ConnectionError)
    run = stepwell.start("checkout", ORDER)
    tell(COMPLETED)
    stepwell.advance("5m")
    assert (run.status, len(till.lines("parcels")), undone(run)) == ("completed", 1, [])


def test_a_cancelled_order_is_paid_by_nobody(stepwell: Stepwell, tell: Tell) -> None:
    run = stepwell.start("checkout", ORDER)
    assert run.waiting_for == "event"
    assert run.cancel("changed her mind", by="ines")
    tell(COMPLETED)
    assert (run.status, pieces_kept(), till.lines("payments")) == ("compensated", 0, [])


def test_two_orders_do_not_take_each_others_payment(stepwell: Stepwell, tell: Tell) -> None:
    other = stepwell.start("checkout", {**ORDER, "order_id": "C-3002"})
    run = stepwell.start("checkout", ORDER)
    tell(COMPLETED)
    assert (run.status, other.status) == ("completed", "waiting")

import hashlib
import hmac
import json
from datetime import timedelta

import pytest

from stepwell.testing.kit import Stepwell


def test_a_busy_bank_is_asked_again_no_earlier_than_it_said(stepwell: Stepwell) -> None:
    run = stepwell.start("convert", {"currency": "XXX", "amount": 10})
    assert run.steps["fetch_rate"].attempts == 1
    stepwell.advance("29s")
    assert run.steps["fetch_rate"].attempts == 1
    stepwell.advance("2s")
    assert run.steps["fetch_rate"].attempts == 2


def test_a_signed_webhook_of_stripe_ends_the_wait(stepwell: Stepwell) -> None:
    run = stepwell.start("paid", {"order_id": "A-1"})
    payload = {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {"metadata": {"order_id": "A-1"}}}}
    body, seconds = json.dumps(payload), int(stepwell.now.timestamp())
    signature = hmac.new(b"whsec_test", f"{seconds}.{body}".encode(), hashlib.sha256).hexdigest()
    stripe = stepwell.webhooks({"STRIPE_SECRET": "whsec_test"})
    assert stripe.deliver("payments", body, {"stripe-signature": f"t={seconds},v1={signature}"}) == 202
    assert run.steps["receipt"].output == {"receipt": "R-A-1"}


def test_the_documents_are_counted(stepwell: Stepwell) -> None:
    assert stepwell.start("report", {"documents": ["a b", "c"] * 20}).result == 60


def test_a_trip_without_a_car_is_undone_from_its_end(stepwell: Stepwell) -> None:
    run = stepwell.start("trip", {"trip": "Rome"})
    assert run.status == "compensated"
    assert run.rollback is not None
    assert [one["step"] for one in run.rollback["undone"]] == ["hotel", "flight"]


def test_the_nightly_report_runs_once_a_night(stepwell: Stepwell) -> None:
    stepwell.advance("2d")
    assert len(stepwell.runs("nightly")) == 2


def test_an_invoice_is_due_at_its_date(stepwell: Stepwell) -> None:
    due = (stepwell.now + timedelta(days=3)).isoformat()
    run = stepwell.start("dunning", {"invoice": "I-1", "due": due})
    stepwell.advance("71h")
    assert run.status == "waiting"
    stepwell.advance("1h")
    assert run.result == "I-1 is due"


def test_a_missing_unicorn_does_not_fail_the_basket(stepwell: Stepwell) -> None:
    assert stepwell.start("basket", {"items": ["cup", "unicorn"]}).result == {"cup": 3, "unicorn": "LookupError"}


def test_a_child_alone_is_refused(stepwell: Stepwell) -> None:
    with pytest.raises(Exception, match="internal"):
        stepwell.start("stock_check", {"item": "cup"})


def test_a_transfer_is_made(stepwell: Stepwell) -> None:
    assert stepwell.start("payout", {"account": "ES1", "amount": 5}).result == "5.00 to ES1"


def test_the_exported_lines_are_counted(stepwell: Stepwell) -> None:
    assert stepwell.start("archive", {"count": 1000}).result == 1000

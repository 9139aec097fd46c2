"""The first example of the page on durable functions."""

from __future__ import annotations

import pytest

from stepwell.testing.kit import Stepwell


@pytest.mark.parametrize(("event", "result"), [("paid", "done"), ("voided", "refunded"), ("", "refunded")])
def test_an_order_is_done_if_it_is_paid_in_time(stepwell: Stepwell, event: str, result: str) -> None:
    """Without the payment, or without an event for two hours, the money goes back."""
    run = stepwell.start("checkout", {"order": {"id": "A-1", "amount": 80}})
    if event:
        stepwell.event(event, key="A-1", payload={"amount": 80})
    stepwell.advance("15d")
    assert run.result == result

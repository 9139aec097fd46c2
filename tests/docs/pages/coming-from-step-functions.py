from stepwell.testing.kit import Stepwell


def test_a_packed_order_is_done(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", {"order_id": "A-1"})
    assert run.waiting_for == "event"
    stepwell.event("packed", key="A-1")
    assert run.status == "completed"
    assert "refund" not in run.steps


def test_an_order_that_nobody_packs_is_paid_back(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", {"order_id": "A-1"})
    stepwell.advance("49h")
    assert run.status == "completed"
    assert run.steps["refund"].output == {"refunded": "A-1"}


def test_a_charge_that_fails_is_tried_again(stepwell: Stepwell) -> None:
    bank = stepwell.mock("charge", raises=ConnectionError, times=2)
    run = stepwell.start("checkout", {"order_id": "A-1"})
    stepwell.advance("3s")
    assert (len(bank.calls), run.waiting_for) == (2, "event")

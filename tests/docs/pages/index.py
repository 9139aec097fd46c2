from stepwell.testing.kit import Stepwell


def test_a_small_refund_is_paid_at_once(stepwell: Stepwell) -> None:
    assert stepwell.start("refund", {"order_id": "A-1", "amount": 80}).result == "80.00 for A-1"


def test_a_large_refund_waits_for_a_manager(stepwell: Stepwell) -> None:
    run = stepwell.start("refund", {"order_id": "A-1", "amount": 180})
    assert run.waiting_for == "approval"
    run.approve(by="ana")
    assert run.result == "180.00 for A-1"

from stepwell.testing.kit import Stepwell


def test_a_refund_is_paid_back_once_it_is_approved(stepwell: Stepwell) -> None:
    run = stepwell.start("refund", {"order_id": "A-1", "amount": 80})
    assert run.steps["check"].output == {"fee": 1.6}
    run.approve(by="ana")
    assert run.steps["pay_back"].output == {"refunded": "A-1"}


def test_a_lost_connection_is_tried_again(stepwell: Stepwell) -> None:
    bank = stepwell.mock("pay_back", raises=ConnectionError, times=2)
    run = stepwell.start("refund", {"order_id": "A-1", "amount": 80})
    run.approve(by="ana")
    stepwell.advance("3s")
    assert (run.status, len(bank.calls)) == ("completed", 2)

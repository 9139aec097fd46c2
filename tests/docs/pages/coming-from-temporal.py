from stepwell.testing.kit import Stepwell

EXPENSE = {"expense_id": "E-1", "amount": 80}


def test_an_approved_expense_is_paid(stepwell: Stepwell) -> None:
    run = stepwell.start("expense", EXPENSE)
    run.approve(by="ana")
    assert run.result == "paid 80.00 for E-1"


def test_a_rejected_expense_is_not_paid(stepwell: Stepwell) -> None:
    run = stepwell.start("expense", EXPENSE)
    run.reject("too much", by="ana")
    assert (run.result, "pay" in run.steps) == ("rejected", False)


def test_after_two_days_nobody_has_decided(stepwell: Stepwell) -> None:
    run = stepwell.start("expense", EXPENSE)
    stepwell.advance("49h")
    assert run.result == "nobody decided"

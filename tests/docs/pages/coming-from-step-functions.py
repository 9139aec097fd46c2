import pytest

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


@pytest.mark.parametrize("error", [ValueError("declined"), ConnectionError("reset")])
def test_any_error_but_a_time_out_is_tried_again_as_by_states_task_failed(stepwell: Stepwell, error: Exception) -> None:
    bank = stepwell.mock("charge", raises=error)
    run = stepwell.start("checkout", {"order_id": "A-1"})
    tried = []
    for _ in range(9):
        assert run.status in ("running", "waiting", "failed")
        tried.append(len(bank.calls))
        stepwell.advance("1s")
    assert tried == [1, 2, 2, 3, 3, 3, 3, 4, 4]  # after 1, 2 and 4 seconds
    assert run.status == "failed"


def test_a_charge_that_times_out_is_not_tried_again(stepwell: Stepwell) -> None:
    bank = stepwell.mock("charge", times_out=True)
    run = stepwell.start("checkout", {"order_id": "A-1"})
    stepwell.advance("1h")
    assert (len(bank.calls), run.status) == (1, "failed")

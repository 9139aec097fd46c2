from stepwell.testing.kit import Stepwell

ORDER = {"order_id": "A-1", "items": ["cup", "pot"]}


def test_a_paid_order_gets_its_labels(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", ORDER)
    stepwell.event("paid", key="A-1")
    assert run.result == ["label cup", "label pot"]


def test_an_order_that_is_not_paid_gets_none(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", ORDER)
    stepwell.advance("61m")
    assert run.result == []

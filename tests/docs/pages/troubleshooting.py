from stepwell.testing.kit import Stepwell


def test_an_order_is_charged(stepwell: Stepwell) -> None:
    assert stepwell.start("order", {"amount": 5}).result == "5.00"

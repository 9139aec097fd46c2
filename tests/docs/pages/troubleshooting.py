def test_an_order_is_charged(stepwell):
    assert stepwell.start("order", {"amount": 5}).result == "5.00"

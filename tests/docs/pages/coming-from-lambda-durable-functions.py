from stepwell.testing.kit import Stepwell


def test_a_delivery_ends_with_the_couriers_callback(stepwell: Stepwell) -> None:
    run = stepwell.start("delivery", {"order_id": "A-1", "items": ["cup", "kettle"]})
    assert run.waiting_for == "callback"
    stepwell.callback(run.view["waiting_data"]["callback_url"], {"signed": True})
    assert run.result == {"receipt": "receipt for A-1", "delivery": {"signed": True}, "scores": [3, 6]}

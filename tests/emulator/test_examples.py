"""The examples as deployed, without a line of difference in their workflows."""

from __future__ import annotations

import json
from typing import Any

from tests.emulator.kit import EXAMPLES, World, until


def recorded(path: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((EXAMPLES / path).read_text())
    return body


def test_an_order_is_approved_paid_shipped_and_confirmed(world: World) -> None:
    run_id = world.start("order", recorded("order/events/order.json"))
    assert world.waits(run_id)["waiting_for"] == "approval"
    world.client.handle(run_id).approve(by="ana")
    payment = recorded("order/events/payment_intent.succeeded.json")
    order_id = payment["data"]["object"]["metadata"]["order_id"]
    for _ in range(2):  # Stripe calls again when it was not answered in time
        world.client.send_event("stripe.payment_intent.succeeded", payment, key=order_id, id=payment["id"])
    run = world.end(run_id)
    assert run["status"] == "completed"
    assert run["result"] == {"order_id": "A-1001", "tracking": "PX000001"}
    assert "worker INFO order A-1001 travels as PX000001" in world.log.read_text()


def test_an_issue_goes_from_its_webhook_to_its_end(world: World) -> None:
    """A question is answered, its author comments on the answer, a person decides."""
    opened = recorded("triage/events/issues.opened.json")
    opened["issue"] |= {"title": "How to install it?", "body": "On Windows?"}
    delivered = world.deliver("issues", json.dumps(opened).encode(), "issues")
    assert delivered.status_code == 202
    run_id = delivered.json()["run_id"]
    assert world.waits(run_id)["current_steps"] == ["settle"]
    comment = (EXAMPLES / "triage/events/issue_comment.created.json").read_bytes()
    assert world.deliver("hub", comment, "issue_comment").status_code == 202
    until(lambda: world.run(run_id)["current_steps"] == ["decide"], "a person is asked")
    world.client.handle(run_id).approve(by="mina")
    assert world.end(run_id)["result"] == {"issue": 218, "kind": "question", "decision": "approved"}


def test_a_subscription_is_a_durable_function_that_takes_what_comes_first(world: World) -> None:
    run_id = world.start("subscription", {"customer": "kim"})
    assert world.waits(run_id)["current_steps"] == ["month"]
    world.client.send_event("subscription.upgrade", {"plan": "pro"}, key="kim")
    until(lambda: world.run(run_id)["state"]["plan"] == "pro", "the upgrade is paid for")
    world.client.send_event("subscription.cancel", key="kim")
    assert world.end(run_id)["result"]["ended"] == "cancelled"

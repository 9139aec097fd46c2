"""Takes an order and starts its run; STEPWELL_URL comes from the stack, and the role signs."""

from __future__ import annotations

from typing import Any

from stepwell import Client


def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    with Client() as client:
        return {"run_id": client.start("order", event, id=f"order-{event['order_id']}").id}

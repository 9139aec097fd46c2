"""The step of the shop."""

from __future__ import annotations


def confirm(order_id: str) -> str:
    return f"{order_id} is confirmed"

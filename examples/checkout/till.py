"""The steps of `checkout`, and beside each the one that takes it back. They write into a book, one line per key.

| variable | means | default |
|---|---|---|
| `TILL_DATA` | the folder of the book | `.stepwell/till`; in a Lambda function a temporary one |
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

import stepwell
from stepwell.runtime.steps.context import StepContext

PRICES_CENTS = {"LAMP-07": 1_990, "DESK-21": 38_900}
STOCK = {"LAMP-07": 40, "DESK-21": 12}
SERVED = {"AT", "DE", "ES", "FR"}

_SCHEMA = "CREATE TABLE IF NOT EXISTS lines (key TEXT PRIMARY KEY, kind TEXT, line TEXT)"


class Item(BaseModel):
    """One line of an order."""

    sku: str
    quantity: int = Field(ge=1, le=100)


class Payment(BaseModel):
    """What webhooks.yaml takes from either of Stripe's events."""

    intent: str
    amount_cents: int
    currency: str


@dataclass
class Hold:
    """Goods that are kept for an order."""

    pieces: int
    total_cents: int


@dataclass
class Booking:
    """Money that has come."""

    intent: str
    amount_cents: int


class OutOfStock(stepwell.StepError):
    """The warehouse does not have so many."""


class NotServed(stepwell.External):
    """No carrier goes there."""


def reserve(order_id: str, items: list[Item], ctx: StepContext) -> Hold:
    """Keeps all the goods or none; in a second try, those that the first has kept."""
    for item in items:
        free = STOCK.get(item.sku, 0) - sum(line["pieces"] for line in lines("goods") if line["sku"] == item.sku)
        if free < item.quantity and not _has(f"{ctx.idempotency_key}:{item.sku}"):
            raise OutOfStock(f"{item.sku}: {free} left, {item.quantity} wanted", data={"sku": item.sku})
    for item in items:
        _write("goods", f"{ctx.idempotency_key}:{item.sku}", order=order_id, sku=item.sku, pieces=item.quantity)
    return Hold(sum(one.quantity for one in items), sum(PRICES_CENTS[one.sku] * one.quantity for one in items))


def release(order_id: str, items: list[Item], ctx: StepContext) -> None:
    """Undoes `reserve`."""
    for item in items:
        _write("goods", f"{ctx.idempotency_key}:{item.sku}", order=order_id, sku=item.sku, pieces=-item.quantity)


def book(order_id: str, payment: Payment) -> Booking:
    """The line's key is the payment's own id: Stripe tells of one payment in two kinds of events."""
    _write("payments", payment.intent, order=order_id, amount_cents=payment.amount_cents)
    return Booking(payment.intent, payment.amount_cents)


def refund(order_id: str, output: Booking, ctx: StepContext) -> str:
    """Undoes `book`: `output` is what that returned."""
    return _write("refunds", ctx.idempotency_key, order=order_id, amount_cents=output.amount_cents)


def ship(order_id: str, country: str, pieces: int, ctx: StepContext) -> str:
    """Books the parcel."""
    if country not in SERVED:
        raise NotServed(f"no carrier goes to {country}", data={"served": sorted(SERVED)})
    return _write("parcels", ctx.idempotency_key, order=order_id, pieces=pieces)


def thank(order_id: str, email: str, parcel: str, ctx: StepContext) -> dict[str, str]:
    """Writes to the customer; its result is the run's."""
    _write("mails", ctx.idempotency_key, to=email, parcel=parcel)
    return {"order_id": order_id, "parcel": parcel}


def lines(kind: str) -> list[dict[str, Any]]:
    """The lines of one kind, oldest first."""
    with closing(_open()) as book:
        found = book.execute("SELECT line FROM lines WHERE kind = ? ORDER BY rowid", (kind,))
        return [json.loads(line) for (line,) in found]


def _has(key: str) -> bool:
    with closing(_open()) as book:
        return book.execute("SELECT 1 FROM lines WHERE key = ?", (key,)).fetchone() is not None


def _write(kind: str, key: str, **line: object) -> str:
    """One line per key, however often it is asked for; gives its name."""
    with closing(_open()) as book, book:
        book.execute("INSERT INTO lines VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, kind, json.dumps(line)))
        (number,) = book.execute("SELECT rowid FROM lines WHERE key = ?", (key,)).fetchone()
    return f"{kind}-{number}"


def _open() -> sqlite3.Connection:
    usual = Path(tempfile.gettempdir()) / "till" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/till")
    folder = Path(os.environ.get("TILL_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    book = sqlite3.connect(folder / "book.db", timeout=10)
    book.execute(_SCHEMA)
    return book

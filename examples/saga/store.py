"""The steps of `checkout` and `express`, and beside each the one that takes it back.

Every one passes its idempotency key on. A step and its compensation have different keys, and each keeps its own in
every try, so a refund whose answer got lost is asked for again and paid once.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import books
from pydantic import BaseModel, Field

import stepwell
from stepwell.runtime.steps.context import StepContext

PRICES = {"LAMP-07": Decimal("19.90"), "DESK-21": Decimal("389.00"), "CHAIR-03": Decimal("129.50")}
STOCK = {"LAMP-07": 40, "DESK-21": 12, "CHAIR-03": 25}
SERVED = {"AT", "DE", "FR", "IT"}
DECLINED = "card_declined"  # a card that the bank turns down
MOST_PIECES = 10  # of one courier


class Item(BaseModel):
    """One line of an order."""

    sku: str
    quantity: int = Field(ge=1, le=100)


@dataclass
class Hold:
    """Goods that are kept for an order."""

    hold_id: str
    pieces: int
    total: Decimal


@dataclass
class Payment:
    """Money that was taken."""

    payment_id: str
    amount: Decimal


class OutOfStock(stepwell.StepError):
    """The warehouse does not have so many."""


class CardDeclined(stepwell.External):
    """The bank said no. Another try would get the same answer."""


class NotServed(stepwell.External):
    """No carrier goes there."""


class TooManyPieces(stepwell.External):
    """The courier came with a small car."""


def in_stock(sku: str) -> int:
    """What is on the shelf and not kept for anybody."""
    moved = [int(line["pieces"]) for line in books.read("hold") + books.read("release") if line["sku"] == sku]
    return STOCK.get(sku, 0) - sum(moved)


def quote(items: list[Item]) -> Decimal:
    """What the order costs."""
    return sum((PRICES[item.sku] * item.quantity for item in items), Decimal(0))


def reserve(order_id: str, items: list[Item], ctx: StepContext) -> Hold:
    """Keeps the goods; in a second try, those that the first has kept."""
    for item in items:
        left = in_stock(item.sku)
        if left < item.quantity and not books.has(f"{ctx.idempotency_key}:{item.sku}"):
            raise OutOfStock(f"{item.sku}: {left} left, {item.quantity} wanted", data={"sku": item.sku})
    for item in items:
        line: books.Line = {"order": order_id, "sku": item.sku, "pieces": item.quantity}
        hold_id = books.write("hold", f"{ctx.idempotency_key}:{item.sku}", line)
    return Hold(hold_id, sum(item.quantity for item in items), quote(items))


def release(order_id: str, items: list[Item], ctx: StepContext) -> None:
    """Undoes `reserve`, and is called with what that was called with."""
    for item in items:
        line: books.Line = {"order": order_id, "sku": item.sku, "pieces": -item.quantity}
        books.write("release", f"{ctx.idempotency_key}:{item.sku}", line)


def charge(order_id: str, card: str, amount: Decimal, ctx: StepContext) -> Payment:
    """Takes the money."""
    if card == DECLINED:
        raise CardDeclined("insufficient funds")
    return Payment(books.write("payment", ctx.idempotency_key, {"order": order_id, "amount": str(amount)}), amount)


def refund(order_id: str, output: Payment, ctx: StepContext) -> dict[str, str]:
    """Undoes `charge`: `output` is the payment that it made."""
    line: books.Line = {"order": order_id, "payment": output.payment_id, "amount": str(output.amount)}
    return {"refund_id": books.write("refund", ctx.idempotency_key, line)}


def thank(order_id: str, email: str, ctx: StepContext) -> None:
    """Tells the customer that the order is on its way through the house."""
    books.write("mail", ctx.idempotency_key, {"order": order_id, "to": email})


def ship(order_id: str, country: str, boxes: int, ctx: StepContext) -> dict[str, str]:
    """Books the shipment; its result is the run's."""
    if country not in SERVED:
        raise NotServed(f"no carrier goes to {country}", data={"served": sorted(SERVED)})
    number = books.write("shipment", ctx.idempotency_key, {"order": order_id, "boxes": boxes})
    return {"order_id": order_id, "shipment": number}


def order_courier(order_id: str, ctx: StepContext) -> str:
    """Calls a courier to the door."""
    return books.write("courier", ctx.idempotency_key, {"order": order_id})


def call_off(collection: str, ctx: StepContext) -> None:
    """Undoes `order_courier`."""
    books.write("call-off", ctx.idempotency_key, {"collection": collection})


def hand_over(collection: str, pieces: int) -> str:
    """Gives the parcel to the courier."""
    if pieces > MOST_PIECES:
        raise TooManyPieces(f"{collection} takes {MOST_PIECES} pieces, not {pieces}")
    return collection

"""The steps of the workflow `order`: plain functions. What they return is kept; what they raise, rules can match."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from backoffice import Backoffice
from pydantic import BaseModel, Field

import stepwell
from stepwell.runtime.steps.context import StepContext

IN_STOCK = {"LAMP-07": 40, "DESK-21": 12, "CHAIR-03": 25}
MANAGERS = "managers@shop.example"


class Customer(BaseModel):
    """Who ordered, and where the parcel goes."""

    name: str
    email: str
    address: str


class Item(BaseModel):
    """One line of an order."""

    sku: str
    quantity: int = Field(ge=1, le=100)
    price: Decimal = Field(gt=0, decimal_places=2)


class Order(BaseModel):
    """What a run of `order` is started with."""

    order_id: str
    customer: Customer
    currency: Literal["EUR", "USD"]
    items: list[Item] = Field(min_length=1)


class LastError(BaseModel):
    """Why Stripe could not take the money."""

    code: str
    message: str


class PaymentIntent(BaseModel):
    """The part of Stripe's object that the shop reads."""

    id: str
    status: str
    amount_received: int
    currency: str
    last_payment_error: LastError | None = None


@dataclass
class Checked:
    """What `validate` found out."""

    total: Decimal
    pieces: int


@dataclass
class Booking:
    """One line of the ledger."""

    payment_id: str
    amount: Decimal
    currency: str


@dataclass
class Parcel:
    """A parcel that the carrier will collect."""

    tracking: str
    pieces: int


class CardDeclined(stepwell.External):
    """The bank said no. Another try would get the same answer."""


def validate(order: Order) -> Checked | object:
    """Adds the order up. An item that is not in stock is a business answer, not a crash."""
    short = [item.sku for item in order.items if IN_STOCK.get(item.sku, 0) < item.quantity]
    if short:
        return stepwell.fail(f"not in stock: {', '.join(short)}", type="OutOfStock", data={"skus": short})
    Backoffice.open().answer()
    total = sum((item.price * item.quantity for item in order.items), Decimal(0))
    return Checked(total, sum(item.quantity for item in order.items))


def remind(order_id: str, total: Decimal, reminder: int, ctx: StepContext) -> str:
    """Tells the managers that an approval is due. Each reminder is a mail of its own, however often it is tried."""
    text = f"order {order_id} over {total} waits for your approval (reminder {reminder})"
    Backoffice.open().mail(f"{ctx.idempotency_key}:{reminder}", MANAGERS, text)
    return text


def charge(order_id: str, total: Decimal, currency: str, intent: PaymentIntent) -> Booking:
    """Books the payment. The ledger's key is the payment's own id: going back to this step is another visit."""
    if intent.last_payment_error is not None or intent.status != "succeeded":
        error = intent.last_payment_error
        raise CardDeclined(error.message if error else f"the payment is {intent.status}", data={"intent": intent.id})
    received = Decimal(intent.amount_received).scaleb(-2)  # Stripe counts cents
    if (received, intent.currency.upper()) != (total, currency):
        raise stepwell.Invalid(f"{received} {intent.currency} came for an order over {total} {currency}")
    Backoffice.open().book(intent.id, order_id, received)
    return Booking(intent.id, received, currency)


def ship(order_id: str, customer: Customer, items: list[Item], ctx: StepContext) -> Parcel:
    """Orders the collection. The carrier knows the idempotency key: a second try gets the first one's parcel."""
    pieces = sum(item.quantity for item in items)
    tracking = Backoffice.open().send_parcel(ctx.idempotency_key, order_id, customer.address)
    ctx.logger.info("order %s travels as %s", order_id, tracking)
    return Parcel(tracking, pieces)


def confirm(order_id: str, customer: Customer, parcel: Parcel, ctx: StepContext) -> dict[str, str]:
    """Writes to the customer; its result is the run's."""
    text = f"{customer.name}, your order {order_id} is on its way: {parcel.tracking}"
    Backoffice.open().mail(ctx.idempotency_key, customer.email, text)
    return {"order_id": order_id, "tracking": parcel.tracking}

"""The steps of `invoice` and `contract`, against books kept in files of the current folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stepwell import StepContext

BOOKS = Path("books")


def write(customer: str, amount: float, ctx: StepContext) -> dict[str, Any]:
    """The invoice's number comes from the idempotency key: who writes it again finds the first one."""
    return note_once("invoices", ctx.idempotency_key, {"customer": customer, "amount": amount})


def charge(amount: float) -> str:
    """The planted fault: each call is another payment, whoever asks."""
    payments = read("payments")
    put("payments", [*payments, {"amount": amount}])
    return f"payment-{len(payments) + 1}"


def charge_once(amount: float, ctx: StepContext) -> str:
    """A payment for each idempotency key."""
    return f"payment-{note_once('payments', ctx.idempotency_key, {'amount': amount})['number']}"


def send_receipt(payment: str, ctx: StepContext) -> None:
    """A mail with the number of the payment."""
    note_once("mails", ctx.idempotency_key, {"about": payment})


def draft(customer: str) -> dict[str, Any]:
    return {"customer": customer, "pages": 12}


def file(signed: dict[str, Any] | None) -> None:
    """Puts the contract into the archive."""


def remind() -> None:
    """Writes to whoever has not signed. In `contract` it is never reached."""


def note_once(book: str, key: str, entry: dict[str, Any]) -> dict[str, Any]:
    entries = read(book)
    for one in entries:
        if one["key"] == key:
            return one
    made = {"key": key, "number": len(entries) + 1, **entry}
    put(book, [*entries, made])
    return made


def read(book: str) -> list[dict[str, Any]]:
    path = BOOKS / f"{book}.json"
    return json.loads(path.read_text()) if path.exists() else []


def put(book: str, entries: list[dict[str, Any]]) -> None:
    BOOKS.mkdir(exist_ok=True)
    (BOOKS / f"{book}.json").write_text(json.dumps(entries, indent=1))

"""The steps of `subscription`: a bank and a mail server that write into one book.

| variable | means | default |
|---|---|---|
| `BILLING_DATA` | the folder of the book | `.stepwell/billing`; in a Lambda function a temporary one |
| `BILLING_NO_MONEY` | customers whose cards the bank turns down, as `kim,leo` | |
"""

from __future__ import annotations

import json
import os
import tempfile
from decimal import Decimal
from pathlib import Path

from stepwell import Retry, StepContext, StepError, step

PRICES = {"basic": Decimal("9.00"), "team": Decimal("29.00"), "pro": Decimal("79.00")}  # of a month


class CardDeclined(StepError):
    """The bank said no. Another try in a second would get the same answer."""


@step(timeout="10s", retry=Retry(5, initial_delay="10s", max_delay="10m"))  # for a bank that is away
def charge(customer: str, plan: str, period: int, ctx: StepContext) -> str:
    """Takes the price of a month."""
    return _take(customer, PRICES[plan], f"{plan}, month {period}", ctx)


@step(timeout="10s", retry=Retry(5, initial_delay="10s", max_delay="10m"))
def charge_difference(customer: str, before: str, plan: str, days_left: int, ctx: StepContext) -> str:
    """Takes what the better plan costs more for the rest of the month."""
    more = (PRICES[plan] - PRICES[before]) * days_left / 30
    return _take(customer, max(more, Decimal(0)).quantize(Decimal("0.01")), f"{before} to {plan}", ctx)


@step(timeout="10s", retry=Retry(3))
def write_mail(customer: str, text: str, ctx: StepContext) -> None:
    """Tells the customer."""
    _write("mails", ctx.idempotency_key, to=customer, text=text)


def _take(customer: str, amount: Decimal, what: str, ctx: StepContext) -> str:
    if customer in os.environ.get("BILLING_NO_MONEY", "").split(","):
        raise CardDeclined(f"the card of {customer} was declined")
    return f"P-{_write('payments', ctx.idempotency_key, customer=customer, amount=str(amount), what=what):04d}"


def _write(book: str, key: str, **line: str) -> int:
    """One line for each key, however often it is asked for; gives the line's number."""
    usual = Path(tempfile.gettempdir()) / "billing" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/billing")
    folder = Path(os.environ.get("BILLING_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{book}.jsonl"
    keys = [json.loads(text)["key"] for text in path.read_text().splitlines()] if path.exists() else []
    if key not in keys:
        keys.append(key)
        with path.open("a") as out:
            out.write(json.dumps({"key": key, **line}) + "\n")
    return keys.index(key) + 1

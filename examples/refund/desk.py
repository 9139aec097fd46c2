"""The steps of `refund`: what the shop's desk does itself. It asks in Slack by HTTP steps, which need no code.

| variable | means | default |
|---|---|---|
| `DESK_DATA` | the folder of the books | `.stepwell/refunds`; in a Lambda function a temporary one |
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stepwell
from stepwell.runtime.steps.context import StepContext

PAID_CENTS = {"A-1001": 122_950, "A-1002": 5_970}  # what customers have paid, by order
LEAD = "lead@shop.example"


@dataclass
class Checked:
    """A refund that may be asked for."""

    text: str


@dataclass
class Decision:
    """One press of a button, as webhooks.yaml makes it."""

    decision: str
    by: str
    name: str


@dataclass
class Settled:
    """How a refund ended."""

    refund_id: str
    outcome: str
    decided_by: list[str]
    text: str


class TooMuch(stepwell.StepError):
    """More than the customer has paid."""


def check(refund_id: str, order_id: str, amount_cents: int, reason: str) -> Checked:
    """What was paid back before counts too."""
    paid_back = sum(line["amount_cents"] for line in _lines("paid") if line["order"] == order_id)
    left = PAID_CENTS.get(order_id, 0) - paid_back
    if amount_cents > left:
        raise TooMuch(f"{_euros(left)} of order {order_id} can be paid back, not {_euros(amount_cents)}")
    return Checked(f"Refund {refund_id}: {_euros(amount_cents)} of order {order_id} ({reason})")


def escalate(refund_id: str, text: str, error: dict[str, Any] | None, ctx: StepContext) -> None:
    """Writes to the lead: Slack could not be asked, or nobody has answered."""
    why = "nobody has decided" if error and error["type"] == "event_timeout" else "Slack could not be asked"
    _write("mails", ctx.idempotency_key, to=LEAD, refund=refund_id, text=f"{text}: {why}")


def pay_back(order_id: str, amount_cents: int, ctx: StepContext) -> str:
    """The bank knows the idempotency key: a second try finds the payment of the first."""
    return f"pay-{_write('paid', ctx.idempotency_key, order=order_id, amount_cents=amount_cents)}"


def settle(
    refund_id: str, decide: Decision | None = None, second: Decision | None = None, pay_back: str | None = None
) -> Settled:
    """Who decided, and what came of it: each parameter is what the node of its name has left in the state."""
    decisions = [one for one in (decide, second) if one is not None]
    people = [one.name for one in decisions]
    rejected = bool(decisions) and decisions[-1].decision != "approve"
    outcome = "paid" if pay_back is not None else "rejected" if rejected else "lapsed"
    return Settled(refund_id, outcome, people, f"Refund {refund_id}: {outcome} ({', '.join(people) or 'nobody'})")


def close(settled: Settled, ctx: StepContext) -> Settled:
    """Files it for the auditors; its result is the run's."""
    _write("register", ctx.idempotency_key, refund=settled.refund_id, outcome=settled.outcome, by=settled.decided_by)
    return settled


def _euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"


def _lines(book: str) -> list[dict[str, Any]]:
    """What stands in a book, oldest first."""
    path = _file(book)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _file(book: str) -> Path:
    usual = Path(tempfile.gettempdir()) / "refunds" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/refunds")
    folder = Path(os.environ.get("DESK_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{book}.jsonl"


def _write(book: str, key: str, **line: object) -> int:
    """One line per key, however often it is asked for; gives the line's number."""
    keys = [one["key"] for one in _lines(book)]
    if key in keys:
        return keys.index(key) + 1
    with _file(book).open("a") as out:
        out.write(json.dumps({"key": key, **line}) + "\n")
    return len(keys) + 1

"""The steps of the workflow `onboarding`: what a provider does for a new customer, against books kept in files.

| variable | means | default |
|---|---|---|
| `CRM_DATA` | the folder of the books | `.stepwell/crm` |
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import stepwell
from stepwell.runtime.steps.context import StepContext

SEATS = 500  # of the biggest workspace


@dataclass
class Account:
    """A customer's account."""

    id: str
    company: str
    email: str


@dataclass
class Workspace:
    """What a customer has bought."""

    url: str
    seats: int


class TooManySeats(stepwell.StepError):
    """No workspace is so big: somebody has to talk to the customer."""


def create_account(company: str, email: str, ctx: StepContext) -> Account:
    """The account's id comes from the idempotency key: a retry finds the account of the first try."""
    entry = _note("accounts", ctx.idempotency_key, company=company, email=email)
    return Account(f"acc-{entry['number']}", company, email)


def provision(account: Account, seats: int, ctx: StepContext) -> Workspace:
    """A workspace of the size that was bought."""
    if seats > SEATS:
        raise TooManySeats(f"{seats} seats; the biggest workspace has {SEATS}")
    _note("workspaces", ctx.idempotency_key, account=account.id, seats=seats)
    return Workspace(f"https://{account.id}.example", seats)


def invite(account: Account, ctx: StepContext) -> str:
    """A mail with the first steps."""
    entry = _note("mails", ctx.idempotency_key, to=account.email, subject=f"Welcome, {account.company}")
    return f"mail-{entry['number']}"


def remind(account: Account, invitation: str, ctx: StepContext) -> None:
    """Puts a call into the diary, for the week after the invitation."""
    _note("diary", ctx.idempotency_key, account=account.id, after=invitation)


def go_live(account: Account, workspace: Workspace, invitation: str | None, ctx: StepContext) -> dict[str, object]:
    """Opens the doors. Who was not invited is on a list for people to call."""
    if invitation is None:
        _note("calls", ctx.idempotency_key, account=account.id, email=account.email)
    return {"account": account.id, "url": workspace.url, "invited": invitation is not None}


def _noted(book: str) -> list[dict[str, object]]:
    """What stands in a book, oldest first."""
    path = _file(book)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _file(book: str) -> Path:
    folder = Path(os.environ.get("CRM_DATA") or ".stepwell/crm")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{book}.jsonl"


def _note(book: str, key: str, **more: object) -> dict[str, object]:
    """One line per key: what was noted under it before is not noted again."""
    entries = _noted(book)
    for entry in entries:
        if entry["key"] == key:
            return entry
    made: dict[str, object] = {"key": key, "number": len(entries) + 1, **more}
    with _file(book).open("a") as out:
        out.write(json.dumps(made) + "\n")
    return made

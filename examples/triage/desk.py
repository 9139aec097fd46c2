"""The steps of the workflow `triage`: what a support desk does with an issue, against a tracker kept in a file.

| variable | means | default |
|---|---|---|
| `DESK_DATA` | the folder of what the desk has said and whom it has paged | `.stepwell/desk` |
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

import stepwell
from stepwell.runtime.steps.context import StepContext

ON_CALL = ("noor", "felix", "mina")
ARTICLES = {"install": "docs/install.md", "timeout": "docs/timeouts.md", "retry": "docs/retries.md"}
_SECURITY = re.compile(r"\b(cve-\d+|vulnerab\w+|exploit|injection|leaks? (?:a |the )?(?:token|secret)s?)\b", re.I)
_BUG = re.compile(r"\b(crash\w*|traceback|exception|regression|broken|fails?)\b", re.I)
_QUESTION = re.compile(r"\?\s*$|\bhow (?:do|can|to)\b", re.I | re.M)
_STEPS = re.compile(r"```(.+?)```", re.S)


class User(BaseModel):
    """Who wrote something."""

    login: str


class Label(BaseModel):
    """What people have said about an issue."""

    name: str


class Issue(BaseModel):
    """The part of GitHub's issue that the desk reads."""

    number: int
    title: str
    body: str | None = None
    user: User
    labels: list[Label] = Field(default_factory=list)


@dataclass
class Ticket:
    """An issue as the desk sees it."""

    id: int
    kind: Literal["security", "bug", "question", "other"]
    title: str
    author: str
    commands: str | None  # what reproduces it
    article: str | None  # what may answer it


class StepsMissing(stepwell.StepError):
    """The issue does not say how to reproduce it."""


def classify(issue: Issue) -> Ticket:
    """By its labels where somebody has set one, else by its words; the gravest kind first."""
    text = f"{issue.title}\n{issue.body or ''}"
    labels = {label.name for label in issue.labels}
    found = _STEPS.search(issue.body or "")
    article = next((page for word, page in ARTICLES.items() if word in text.lower()), None)
    return Ticket(
        issue.number,
        _kind(text, labels, article),
        issue.title,
        issue.user.login,
        found[1].strip() if found else None,
        article,
    )


def _kind(text: str, labels: set[str], article: str | None) -> Literal["security", "bug", "question", "other"]:
    if "security" in labels or _SECURITY.search(text):
        return "security"
    if "bug" in labels or _BUG.search(text):
        return "bug"
    if article and ("question" in labels or _QUESTION.search(text)):
        return "question"
    return "other"


def page(ticket: Ticket, repository: str, ctx: StepContext) -> dict[str, str]:
    """Calls the next person of the rota. The page's id is the idempotency key: a retry does not ring twice."""
    rung = {str(entry["to"]) for entry in _said("pages") if entry["ticket"] == ticket.id}
    person = next((name for name in ON_CALL if name not in rung), ON_CALL[-1])
    entry = _say("pages", ctx.idempotency_key, ticket.id, to=person, text=f"{repository}#{ticket.id}: {ticket.title}")
    return {"page_id": ctx.idempotency_key, "person": str(entry["to"])}


def reproduce(ticket: Ticket) -> dict[str, bool]:
    """Runs the issue's commands in a sandbox. This one knows only one command that fails."""
    if ticket.commands is None:
        raise StepsMissing(f"issue {ticket.id} has no commands to run")
    return {"reproduced": "--parallel" in ticket.commands}


def comment(ticket: Ticket, text: str, ctx: StepContext) -> str:
    """Writes under the issue, once per idempotency key."""
    return str(_say("comments", ctx.idempotency_key, ticket.id, to=ticket.author, text=text)["text"])


def close(ticket: Ticket, decision: str, ctx: StepContext) -> dict[str, object]:
    """The end of every path."""
    _say("closed", ctx.idempotency_key, ticket.id, to=ticket.author, text=decision)
    return {"issue": ticket.id, "kind": ticket.kind, "decision": decision}


def _file(name: str) -> Path:
    folder = Path(os.environ.get("DESK_DATA") or ".stepwell/desk")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.jsonl"


def _said(name: str) -> list[dict[str, object]]:
    path = _file(name)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _say(name: str, key: str, ticket: int, **more: str) -> dict[str, object]:
    """One line per key: what was said under it before is not said again."""
    for entry in _said(name):
        if entry["key"] == key:
            return entry
    made: dict[str, object] = {"key": key, "ticket": ticket, **more}
    with _file(name).open("a") as out:
        out.write(json.dumps(made) + "\n")
    return made

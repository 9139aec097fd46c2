"""The steps of `batch`. The paper stays with the scanner: what travels through the run are places and fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import scanner

import stepwell

Fields = dict[str, str | int]
_NUMBERS = {"net", "tax", "total", "notice"}


@dataclass
class Place:
    """Where a document lies."""

    batch: str
    number: int
    smudged: int


@dataclass
class Document:
    """What could be read of one."""

    kind: str
    fields: Fields


class Unreadable(stepwell.StepError):
    """There is nothing to read; another try reads the same."""


def split(batch: str, documents: int, smudged: int = 0) -> list[Place]:
    """One place for each document: what each branch of the map gets."""
    return [Place(batch, number, smudged) for number in range(documents)]


def read(place: Place) -> Document:
    """The kind is on the first line, a field on each other one."""
    text = scanner.text_of(place.batch, place.number, place.smudged)
    kind, *lines = text.splitlines()
    if not kind.isalpha():
        raise Unreadable(f"document {place.number} of {place.batch} is a smudge")
    fields = dict(line.split(": ", 1) for line in lines)
    return Document(kind.lower(), {name: int(value) if name in _NUMBERS else value for name, value in fields.items()})


def check(kind: str, fields: Fields) -> bool:
    """Whether an invoice or a receipt adds up. A letter always does."""
    return kind == "letter" or int(fields["net"]) + int(fields["tax"]) == int(fields["total"])


def summary(batch: str, scanned: int, documents: list[Mapping[str, Any]]) -> dict[str, object]:
    """The whole batch in a few numbers. A document that could not be read has left no output."""
    contracts = [one["contract"] for one in documents if "contract" in one]
    return {
        "batch": batch,
        "kinds": dict(Counter(one["kind"] for one in documents)),
        "unread": scanned - len(documents),
        "doubtful": sum(one.get("checked") is False for one in documents),
        "total": sum(one["fields"].get("total", 0) for one in documents),
        "remind": min((one["remind_at"] for one in contracts), default=None),
    }

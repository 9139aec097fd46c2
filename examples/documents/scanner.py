"""The world outside, small: a scanner whose batches are the same whenever they are read."""

from __future__ import annotations

import random
from datetime import date, timedelta

_KINDS = ("invoice",) * 60 + ("receipt",) * 25 + ("letter",) * 12 + ("contract",) * 3
_FROM = ("Brunnen AG", "Lumen GmbH", "Pressoir SA", "Talweg KG", "Kontor 12")


def text_of(batch: str, number: int, smudged_percent: int = 0) -> str:
    """A document as the scanner read it; of a hundred that follow each other, so many are smudges."""
    if number * 37 % 100 < smudged_percent:
        return "▒▒▒ ▒▒▒▒"
    chance = random.Random(f"{batch}/{number}")  # noqa: S311 - invented paper, the same in every try
    kind, sender = chance.choice(_KINDS), chance.choice(_FROM)
    day = date(2030, 1, 1) + timedelta(days=chance.randrange(365))
    lines = [kind.upper(), f"from: {sender}", f"date: {day}"]
    if kind in {"invoice", "receipt"}:
        net = chance.randrange(500, 200_000)
        tax = net * 19 // 100
        wrong = chance.random() < 0.02  # somebody added up badly
        lines += [f"net: {net}", f"tax: {tax}", f"total: {net + tax + (100 if wrong else 0)}"]
    if kind == "contract":
        lines += [f"ends: {day + timedelta(days=730)}", f"notice: {chance.choice((30, 90))}"]
    return "\n".join(lines)

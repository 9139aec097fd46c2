"""A translation service that says "too many" for the first call of some texts, in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Answer:
    """What comes back over HTTP."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def post(text: str) -> Answer:
    here = Path(os.environ.get("TRANSLATOR_DATA", ".stepwell"))
    here.mkdir(parents=True, exist_ok=True)
    with (here / text).open("a+", encoding="utf-8") as file:
        file.write("x")
        calls = file.tell()
    if text.startswith("much") and calls == 1:
        return Answer(429, headers={"Retry-After": "90"})
    return Answer(400) if text == "rude" else Answer(200, text[::-1])

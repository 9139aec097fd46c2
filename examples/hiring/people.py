"""The functions of the agents `hiring` and `screening`, against books kept in files.

| variable | means | default |
|---|---|---|
| `HIRING_DATA` | the folder of the books | `.stepwell/hiring` |
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import stepwell
from stepwell.runtime.steps.context import StepContext

_SIGNS = ("built", "shipped", "maintain", "designed", "measured")  # of somebody who has done it before


@stepwell.step(name="send_message")
def send_message(thread: str, message: str, ctx: StepContext) -> dict[str, object]:
    """A message to the candidate. The same key writes it once."""
    return {"messageId": _note("messages", ctx.idempotency_key, thread=thread, message=message)}


@stepwell.step(name="rate")
def rate(lastResponse: str) -> dict[str, object]:  # noqa: N803 - a variable's name as it is
    """From 1 to 5: a point for each word that tells of work done."""
    if not lastResponse.strip():
        raise stepwell.StepError("there is nothing to rate")
    return {"rating": min(1 + sum(word in lastResponse.lower() for word in _SIGNS), 5)}


@stepwell.step(name="enroll")
def enroll(
    name: str,
    position: str,
    documentUrls: dict[str, str],  # noqa: N803 - variables' names as they are
    signedDocumentUrl: str,  # noqa: N803
    ctx: StepContext,
) -> dict[str, object]:
    """The candidate becomes an employee, with the papers that came."""
    number = _note(
        "staff", ctx.idempotency_key, name=name, position=position, papers=[*documentUrls, signedDocumentUrl]
    )
    return {"employee": f"E-{number:04d}"}


def _note(book: str, key: str, **entry: object) -> int:
    """The entry's number in the book; what was noted under its key before is not noted again."""
    folder = Path(os.environ.get("HIRING_DATA") or ".stepwell/hiring")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{book}.jsonl"
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()] if path.exists() else []
    if key not in keys:
        with path.open("a") as out:
            out.write(json.dumps({"key": key, **entry}) + "\n")
        keys.append(key)
    return keys.index(key) + 1

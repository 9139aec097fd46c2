"""One run that is watched, and what its watchers are sent: the same by `stepwell dev` and on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

FLOW = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval}}, {name: greet, run: python:m.greet}]"
STEPS = "def greet(): return 'hello'"
# Of the run before the approval, and after it.
BEFORE = [("run.created", ""), ("run.started", ""), ("approval.requested", "ok")]
AFTER = [("approval.received", "ok"), ("step.completed", "ok"), ("step.completed", "greet"), ("run.completed", "greet")]


def seen(frames: Iterable[str]) -> list[tuple[str, str]]:
    """The entries of the frames, each once: type and step."""
    entries = [one["entry"] for frame in frames for one in json.loads(frame)["entries"]]
    found = {(str(entry["type"]), str(entry["step"] or "")): None for entry in entries}
    return [*found]


def page(frame: str) -> tuple[str, bool]:
    """The cursor of an answer, and whether there is more."""
    found: dict[str, Any] = json.loads(frame)
    return found["cursor"], found["more"]

"""A golden log of a run whose steps are answered by callbacks.

`python -m tests.engine.golden_answered` writes it anew. The records of their waits carry format 8.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "8" / "answered.json"
ASK: dict[str, Any] = {"Type": "Task", "Resource": "ask.waitForTaskToken", "Parameters": {"token.$": "$$.Task.Token"}}
CAUGHT = [{"ErrorEquals": ["States.HeartbeatTimeout", "Busy"], "ResultPath": None, "Next": "Fails"}]
DEFINITION = {
    "workflow": "answered",
    "StartAt": "Answered",
    "resources": {"ask.waitForTaskToken": "python:golden.note"},
    "States": {
        "Answered": {**ASK, "HeartbeatSeconds": 60, "TimeoutSeconds": 600, "Next": "Silent"},
        "Silent": {**ASK, "HeartbeatSeconds": 60, "TimeoutSeconds": 600, "Catch": CAUGHT, "End": True},
        "Fails": {**ASK, "Catch": [{**CAUGHT[0], "Next": "Done"}], "End": True},
        "Done": {"Type": "Succeed"},
    },
}


def _answered(kit: Stepwell) -> Run:
    kit.define(json.dumps(DEFINITION))
    told = kit.mock("Answered", returns="dropped")
    kit.mock("Silent")
    kit.mock("Fails", raises=type("Busy", (Exception,), {})("later"))
    run = kit.start("answered", {"id": 7})
    kit.settle()
    kit.callback(told.calls[0]["token"], ["the", "answer"])
    kit.advance("61s")
    return run


def recorded_answered() -> dict[str, Json]:
    return recorded(Scenario("asl", "steps that are answered, late and never", _answered))


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_answered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

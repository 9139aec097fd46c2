"""A golden log of a paused run that leaves the line of a limit as its turn comes, and asks anew.

`python -m tests.engine.golden_left` writes it anew. The record with which it leaves carries format 9.
"""

from __future__ import annotations

import json
import sys

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "9" / "left.json"
DEFINITION = """
workflow: left
concurrency: {limit: 1, while_waiting: release}
timeline:
  - {name: nap, sleep: 1m}
  - {name: work, run: work, retry: {max_retries: 1, initial_delay: 1h, on: [step]}}
"""


def _left(kit: Stepwell) -> Run:
    kit.define(DEFINITION)
    kit.mock("work", raises=ValueError("not yet"))  # while it waits for its retry, it keeps its permit
    kit.start("left")
    waits = kit.start("left")
    kit.advance("2m")
    kit.mock("work", returns="done")
    waits.pause()
    kit.advance("1h")
    waits.unpause()
    return waits


def recorded_left() -> dict[str, Json]:
    return recorded(Scenario("timeline", "a paused run that leaves the line of a limit", _left))


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_left(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

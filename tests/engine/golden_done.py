"""A golden log of a run that undoes a step whose output could not be written.

`python -m tests.engine.golden_done` writes it anew. The record that says so carries format 7.
"""

from __future__ import annotations

import json
import sys

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "7" / "done.json"
DEFINITION = """
workflow: done
failure_policy: compensate
timeline:
  - {name: pay, run: pay, output: {paid: "{{ result.sum }}"}, compensate: {run: refund}}
"""


def _done(kit: Stepwell) -> Run:
    kit.define(DEFINITION)
    kit.mock("pay", returns={"card": 7})
    kit.mock("refund", returns="back")
    return kit.start("done")


def recorded_done() -> dict[str, Json]:
    return recorded(Scenario("timeline", "a step whose output could not be written, undone", _done))


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_done(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

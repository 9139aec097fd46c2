"""A golden log of outputs that stand once: operations of a function's tasks, and what the function's log says of them.

`python -m tests.engine.golden_outputs` writes it anew. The records that refer to others carry format 4.
"""

from __future__ import annotations

import json
import sys

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "4" / "outputs.json"


def _outputs(kit: Stepwell) -> Run:
    run = kit.start("outputs")
    kit.advance("1h")
    return run


SCENARIO = Scenario("durable", "two operations with large outputs, one with a small one", _outputs)


def recorded_outputs() -> dict[str, Json]:
    """A call and a step of tasks, whose outputs are in their own logs alone."""
    return recorded(SCENARIO)


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_outputs(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A golden log of a redriven run whose tasks take what they had finished in the run that failed.

`python -m tests.engine.golden_finished` writes it anew. The records that say so carry format 6.
"""

from __future__ import annotations

import json
import sys

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "6" / "finished.json"


def _finished(kit: Stepwell) -> Run:
    kit.mock("charge", raises=ValueError("no card"), times=1)
    return kit.start("finished", {"who": ["ann", "bob", "cem"]}).redrive(by="kim")


def recorded_finished() -> dict[str, Json]:
    return recorded(Scenario("durable", "tasks of which one failed and the others went on", _finished))


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_finished(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

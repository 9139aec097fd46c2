"""A golden log of a run that gave back its permit while it waited, and took one again.

`python -m tests.engine.golden_shares` writes it anew. The records that say so carry format 5.
"""

from __future__ import annotations

import json
import sys

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell
from tests.engine.golden_logs import GOLDEN, Scenario, recorded

FILE = GOLDEN / "5" / "shares.json"
DEFINITION = """
workflow: shares
concurrency: {limit: 1, while_waiting: release}
timeline:
  - {name: nap, sleep: 1m}
  - {name: asked, wait: {for: approval}}
"""


def _shares(kit: Stepwell) -> Run:
    kit.define(DEFINITION)
    run = kit.start("shares")
    kit.advance("1m")
    run.approve({"ok": True}, "ann")
    return run


def recorded_shares() -> dict[str, Json]:
    return recorded(Scenario("timeline", "two waits of a run under a limit", _shares))


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded_shares(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A golden log of lanes: what a run whose branches are written together leaves in the store.

`python -m tests.engine.golden_lanes` writes it anew. Its records carry format 3 where older code must not read on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from stepwell.definition.graph import Json
from stepwell.runtime.loop.driving import run_now
from tests.engine.golden_logs import GOLDEN, shown
from tests.runtime.kit import World, fails

FILE = GOLDEN / "3" / "lanes.json"
FLOW = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, output: {n: "{{ result }}"}, transitions: [{to: ask, when: "result == 2"}, {to: check}]}
  check: {run: python:m.check, transitions: [{to: gather}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, tolerate: {count: 1}, target: found}}
"""
WIDTH = 12


def recorded() -> dict[str, Json]:
    """Steps that follow each other in lanes, a failure that is tolerated, a branch that leaves its lane."""
    world = World(FLOW, lane=10)
    world.steps.of["work"] = lambda call: call.input["item"]
    world.steps.of["check"] = lambda call: fails() if call.token.endswith(".4") else "checked"
    run_id = world.start(given=list(range(WIDTH)))
    world.deliver()
    run_now(world.service.approve(run_id, wait="0/0.2"))
    world.deliver()
    logs = {token: [json.loads(one.body) for one in log.after(-1, None)]
            for (_, token), log in sorted(world.store.inner._logs.items()) if log.slots}  # fmt: skip
    return {"logs": logs, "tokens": tokens(world, run_id)}


def folded(golden: Mapping[str, Any]) -> dict[str, Json]:
    """What today's code makes of the file."""
    world = World(FLOW)
    run_id = world.start(given=list(range(WIDTH)))
    for token, log in golden["logs"].items():
        for slot, body in enumerate(log):
            run_now(world.store.append(run_id, token, body.get("slot", slot), json.dumps(body, separators=(",", ":"))))
    return tokens(world, run_id)


def tokens(world: World, run_id: str) -> dict[str, Json]:
    branches = run_now(world.service.branches(run_id, "0/0", 0, WIDTH))
    return {one.token.id: shown(one.token) for one in (run_now(world.service.standing(run_id)), *branches)}


def main() -> int:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(recorded(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

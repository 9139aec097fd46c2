"""How long forks take whose steps wait for the outside world, beside the time that they would take at best.

    uv run python benchmarks/overlap.py

On SQLite, with the threads of the dev server. Each step sleeps; at best, as many as allowed are under way all the time.
The machine's own time is that of the same fork whose steps do not sleep, which is run first: nothing is cold after it.
Each time is the median of five runs where one takes less than a second.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from stepwell.limits import MINUTE_MS
from stepwell.local.pump import Pump
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start

STEPS = """
import time
from stepwell import step, workflow

@step
def nap(seconds):
    time.sleep(seconds)
    return seconds

@workflow
async def mapped(ctx, naps, limit):
    return await ctx.map(nap, naps, max_concurrency=limit)
"""
FORK = """
workflow: {name}
nodes:
  fork: {{fan_out: all, transitions: [{{to: work, foreach: "{{{{ input.naps }}}}", as: nap{bound}}}]}}
  work: {{run: python:steps.nap, input: {{seconds: "{{{{ branch.item }}}}"}}, transitions: [{{to: gather}}]}}
  gather: {{fan_in: {{policy: {policy}, target: outs}}}}
"""
CASES = (  # name, naps in seconds, policy, how many at once, ideal in seconds
    ("10 of 0.5 s, two at a time", [0.5] * 10, "all", 2, 2.5),
    ("4 of 3 s", [3.0] * 4, "all", 0, 3.0),
    ("any of 3 s, 0.1 s, 0.1 s", [3.0, 0.1, 0.1], "any", 0, 0.1),
    ("1,000 of 0.2 s, 50 at a time", [0.2] * 1_000, "all", 50, 4.0),
)
SHORT_SECONDS, ROUNDS = 1.0, 5
MAPPED = ("ctx.map: 20 of 0.5 s, four at a time", [0.5] * 20, 4, 2.5)


def elapsed_seconds(local: Local, name: str, given: object) -> float:
    """From the start of a run to its end, in seconds."""
    began = perf_counter()
    service = local.parts.service
    run_id = run_now(service.start(Start(name, given))).header.run_id
    if run_now(service.wait_for_end(run_id, 2 * MINUTE_MS)).status != "completed":
        raise SystemExit(f"{name} did not complete")
    return perf_counter() - began


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "workflows")
        folder.mkdir()
        (folder / "steps.py").write_text(STEPS)
        for number, (_, _, policy, limit, _) in enumerate(CASES):
            bound = f", max_concurrency: {limit}" if limit else ""
            (folder / f"fork{number}.yaml").write_text(FORK.format(name=f"fork{number}", policy=policy, bound=bound))
        local = open_local(Path(name, "data"), folder, load_folder(folder).graphs)
        pump = Pump(local)
        pump.start()
        print(f"{'fork':40} {'ideal s':>8} {'took s':>8} {'ratio':>6} {'machine s':>10}")
        rows: list[tuple[str, str, dict[str, Any], float]]
        rows = [(label, f"fork{at}", {"naps": naps}, ideal) for at, (label, naps, _, _, ideal) in enumerate(CASES)]
        rows.append((MAPPED[0], "mapped", {"naps": MAPPED[1], "limit": MAPPED[2]}, MAPPED[3]))
        for label, workflow, given, ideal in rows:
            own = elapsed_seconds(local, workflow, {**given, "naps": [0.0] * len(given["naps"])})
            rounds = ROUNDS if ideal < SHORT_SECONDS else 1
            took = median(elapsed_seconds(local, workflow, given) for _ in range(rounds))
            print(f"{label:40} {ideal:8.2f} {took:8.2f} {took / ideal:6.2f} {own:10.3f}")
        pump.stop(2.0)
        local.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

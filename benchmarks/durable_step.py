"""What a durable step costs on this machine, beside the bare SQLite insert that it cannot be cheaper than.

    uv run python benchmarks/durable_step.py

Chains of no-op steps, from the request to the run's end: in the short chain the start and the end weigh most,
in the long one the step itself. The floor is one 300-byte record per commit on the same disk with the same
synchronous setting, in the same run, taken in turns.
"""

from __future__ import annotations

import random
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from floor import bare_insert

from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph
from stepwell.local.database import Database, Synchronous
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_apart, run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.ids import new_id
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.stores.clocks import RealClock
from stepwell.testing.backend import ports_of

CHAINS = (10, 100)
DURABILITIES = ("step", "batch")
RECORDS, ROUNDS = 500, 7  # steps, and inserts, of one round
STEP_CODE = "def nothing():\n    return None\n"


def chain_graph(steps: int, durability: str) -> Graph:
    """A timeline of no-op steps."""
    lines = "".join(f"  - {{name: s{number}, run: python:noop.nothing}}\n" for number in range(steps))
    graph = compile_definition(f"workflow: chain\ndurability: {durability}\ntimeline:\n{lines}").graph
    if graph is None:
        raise SystemExit("the benchmark's own workflow does not compile")
    return graph


def open_parts(folder: Path, synchronous: Synchronous, graph: Graph) -> tuple[Assembly, SqliteQueue, Database]:
    """A Stepwell on a database in this folder."""
    (folder / "noop.py").write_text(STEP_CODE)
    clock = RealClock()
    database = Database(folder / "chain.db", synchronous=synchronous)
    store, inbox = SqliteStore(database), SqliteQueue(database, clock)
    parts = assemble(
        ports_of(store, inbox, clock),
        Catalog(partial(compile_document, trusted=True), [graph]),
        FunctionSteps(folder, clock),
        compile_expression=compile_expression,
        new_id=new_id,
        jitter=random.random,
    )
    return parts, inbox, database


def run_chains(parts: Assembly, inbox: SqliteQueue, database: Database, steps: int) -> tuple[float, float]:
    """(wall_ms, cpu_ms) of one step, the share of start and end included."""
    wall, cpu = perf_counter(), process_time()
    for _ in range(RECORDS // steps):
        started = run_now(parts.service.start(Start("chain")))
        while delivery := inbox.receive(tuple(Lane), parts.ports.clock.now_ms(), 60_000):
            with database.repeated():
                run_apart(dispatch(parts, delivery.lane, delivery.message, Unlimited()))
            inbox.delete(delivery)
        if not run_now(parts.service.header(started.header.run_id)).status.terminal:
            raise SystemExit("a chain did not end")
    return (perf_counter() - wall) * 1000 / RECORDS, (process_time() - cpu) * 1000 / RECORDS


def measure(synchronous: Synchronous, steps: int, durability: str) -> None:
    """Prints a row: medians over rounds in which floor and chain take turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts, inbox, database = open_parts(folder, synchronous, chain_graph(steps, durability))
        run_chains(parts, inbox, database, steps)
        floors, chains = [], []
        for number in range(ROUNDS):
            floors.append(bare_insert(folder / f"floor{number}.db", synchronous, RECORDS))
            chains.append(run_chains(parts, inbox, database, steps))
    (floor_wall, floor_cpu), (wall, cpu) = _medians(floors), _medians(chains)
    print(
        f"{synchronous:8} {durability:10} {steps:5} {floor_wall:10.3f} {wall:10.3f} {wall / floor_wall:8.2f}"
        f" {floor_cpu:12.3f} {cpu:10.3f} {cpu / floor_cpu:8.2f}"
    )


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def main() -> int:
    print(f"medians of {ROUNDS} rounds of {RECORDS} steps; milliseconds per step")
    print("sync     durability chain floor wall  step wall    ratio    floor cpu   step cpu    ratio")
    settings: tuple[Synchronous, ...] = ("FULL", "NORMAL")
    for synchronous in settings:
        for steps in CHAINS:
            for durability in DURABILITIES:
                measure(synchronous, steps, durability)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether a laptop's file gets slower as runs come to lie in it: the same calls beside a page of runs and a million.

    uv run python benchmarks/many_runs.py [--runs 1000000] [--rounds 30] [--folder .]

The runs that have ended are copies of one: its header, its tag and its records, put into the tables past the store.
Each call is made in turns on both files; a ratio near 1 says that it does not matter how many lie there.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from stepwell.engine.records import Status
from stepwell.limits import MINUTE_MS, PAGE_ITEMS
from stepwell.local.pump import Pump
from stepwell.local.wiring import DATABASE_FILE, Local, open_local
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.starting import Start

STEPS = 5
STILL_MS = 5 * MINUTE_MS
CHAIN = "workflow: chain\ntimeline: [" + ", ".join(f"{{name: s{n}, run: python:steps.s}}" for n in range(STEPS)) + "]"
TAG = ("team", "shop")
COPIES = {  # the columns of a table that are a copy's own
    "runs": {"run_id": "printf('run_%026d', n)", "created_ms": "created_ms - 1000 - n", "expires_ms": "0"},
    "tags": {"run_id": "printf('run_%026d', n)", "created_ms": "created_ms - 1000 - n"},
    "log": {"run_id": "printf('run_%026d', n)"},
}
COPY = """WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
    INSERT INTO {table} SELECT {values} FROM (SELECT * FROM {table}), numbers"""


@dataclass
class Home:
    """A Stepwell on a file of its own, with its threads."""

    local: Local
    pump: Pump

    def run(self) -> str:
        """A run of the chain, from its start to its end."""
        service = self.local.parts.service
        run_id = run_now(service.start(Start("chain", None, tags=dict([TAG])))).header.run_id
        if run_now(service.wait_for_end(run_id, MINUTE_MS)).status != "completed":
            raise RuntimeError(f"{run_id} did not complete")
        return run_id

    def listed(self, **narrow: object) -> None:
        run_now(self.local.parts.service.ports.runs.list_runs(RunQuery(**narrow)))  # type: ignore[arg-type]  # its own fields

    def sweep(self) -> None:
        run_now(self.local.parts.sweeper.sweep(STILL_MS))

    def close(self) -> None:
        self.pump.stop(2.0)
        self.local.close()


def opened(folder: Path, copies: int) -> Home:
    """A home whose file holds one run and so many copies of it."""
    workflows = folder / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "steps.py").write_text("from stepwell import step\n\n\n@step\ndef s():\n    return 1\n")
    (workflows / "chain.yaml").write_text(CHAIN)
    first = home_in(folder)
    first.run()
    first.close()
    copy_runs(folder / "data" / DATABASE_FILE, copies)
    return home_in(folder)


def home_in(folder: Path) -> Home:
    workflows = folder / "workflows"
    local = open_local(folder / "data", workflows, load_folder(workflows).graphs)
    home = Home(local, Pump(local))
    home.pump.start()
    return home


def copy_runs(file: Path, copies: int) -> None:
    """Puts so many copies of the file's run beside it, each a little older than the one before."""
    connection = sqlite3.connect(str(file), timeout=60)
    try:
        with connection:
            for table, own in COPIES.items():
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                values = ", ".join(own.get(column, column) for column in columns)
                connection.execute(COPY.format(table=table, values=values), (copies,))
    finally:
        connection.close()


CALLS: dict[str, Callable[[Home], object]] = {
    f"a run of {STEPS} steps, start to end": Home.run,
    "a page of all runs": lambda home: home.listed(),
    "… of one workflow": lambda home: home.listed(workflow="chain"),
    "… of one status": lambda home: home.listed(statuses=frozenset({Status.COMPLETED})),
    "… of one tag": lambda home: home.listed(tag=TAG),
    "… of failed runs, where there are none": lambda home: home.listed(statuses=frozenset({Status.FAILED})),
    "a sweep": Home.sweep,
}


def seconds_of(call: Callable[[Home], object], home: Home) -> float:
    began = perf_counter()
    call(home)
    return perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/many_runs.py", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--folder", default=None, help="a disk to measure on; default: the folder for temporary files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        homes = [opened(Path(name, "few"), PAGE_ITEMS), opened(Path(name, "many"), given.runs)]
        size = sum(file.stat().st_size for file in Path(name, "many", "data").iterdir() if file.is_file())
        print(f"{given.runs:,} runs that have ended: {size / 1e6:,.0f} MB. Medians of {given.rounds} rounds, in turns.")
        print(f"{'':42} {'few ms':>10} {'many ms':>10} {'ratio':>6}")
        for label, call in CALLS.items():
            times: list[list[float]] = [[], []]
            for _ in range(given.rounds):
                for home, kept in zip(homes, times, strict=True):
                    kept.append(seconds_of(call, home))
            few, many = (median(kept[given.rounds // 5 :]) for kept in times)  # the first ones warm up
            print(f"{label:42} {few * 1e3:10.2f} {many * 1e3:10.2f} {many / few:6.2f}")
        for home in homes:
            home.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

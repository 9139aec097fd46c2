# /// script
# requires-python = ">=3.11"
# dependencies = ["dbos==3.4.0"]
# ///
"""DBOS Transact on SQLite."""

import tempfile
from pathlib import Path
from time import perf_counter, process_time, sleep

from dbos import DBOS
from rounds import serve

IMPORT_MS = process_time() * 1000


@DBOS.step()
def nothing(number: int) -> int:
    return number


@DBOS.workflow()
def chain(steps: int) -> None:
    for number in range(steps):
        nothing(number)


@DBOS.workflow()
def branch(number: int) -> int:
    return nothing(number)


@DBOS.workflow()
def fan(width: int) -> int:
    handles = [DBOS.start_workflow(branch, number) for number in range(width)]
    return len([handle.get_result() for handle in handles])


@DBOS.step()
def clock() -> float:
    return perf_counter()


@DBOS.workflow()
def clocks() -> float:
    return clock()


@DBOS.workflow()
def waits() -> object:
    return DBOS.recv("go", timeout_seconds=60)


@DBOS.workflow()
def naps() -> None:
    DBOS.sleep(1)


class Dbos:
    name = "DBOS, SQLite"
    durability = "SQLite, DBOS's own settings; an insert for each step"

    def chain(self, steps: int) -> None:
        chain(steps)

    def fan(self, width: int) -> None:
        if fan(width) != width:
            raise SystemExit("DBOS's fan-out lost a branch")

    def event(self) -> float:
        handle = DBOS.start_workflow(waits)
        sleep(0.3)  # until it waits
        began = perf_counter()
        DBOS.send(handle.workflow_id, "x", "go")
        handle.get_result()
        return perf_counter() - began

    def late(self) -> float:
        began = perf_counter()
        DBOS.start_workflow(naps).get_result()
        return perf_counter() - began - 1

    def tail(self) -> float:
        ended = DBOS.start_workflow(clocks).get_result()
        return perf_counter() - ended

    def cpu_seconds(self) -> float:
        return process_time()


def run(peer: Dbos, database: str) -> None:
    """Serves the rounds with DBOS's state in this database, an SQLAlchemy URL."""
    config = {"name": "comparison", "run_admin_server": False, "log_level": "ERROR"}
    DBOS(config={**config, "system_database_url": database})
    DBOS.launch()
    serve(peer, IMPORT_MS)
    DBOS.destroy()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Dbos(), f"sqlite:///{Path(folder, 'dbos.sqlite')}")

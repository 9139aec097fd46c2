"""Stepwell: `stepwell dev`, called over HTTP. Its CPU is that of the server's process."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rounds import cpu_of, serve

import stepwell.local.dev  # noqa: F401 - what the command needs to serve

IMPORT_MS = process_time() * 1000
STEPS = """
from time import perf_counter

def clock():
    return perf_counter()

def nothing():
    return None

def work(item):
    return item
"""
FORK = """
workflow: fan
durability: DURABILITY
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.items }}", as: item}]}
  work: {run: python:steps.work, input: {item: "{{ branch.item }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
"""
WAITS = "workflow: waits\ntimeline:\n  - {name: go, wait: {for: event, name: go, key: '{{ run.id }}'}}\n"
CLOCKS = "workflow: clocks\ntimeline:\n  - {name: clock, run: python:steps.clock}\n"
NAPS = "workflow: naps\ntimeline:\n  - {name: nap, sleep: 1s}\n"
CHAINS = (10, 100)
IDLE_SECONDS = 2  # the server closes a connection that idles for five


class Stepwell:
    name = "Stepwell, stepwell dev"
    durability = (
        "SQLite, WAL, synchronous=FULL; a write for each step, and for ten short branches, which a crash repeats"
    )

    def __init__(self, process_id: int, port: int) -> None:
        self._process_id = process_id
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._called = perf_counter()

    def chain(self, steps: int) -> None:
        self._ended(self._call("POST", f"/workflows/chain{steps}/runs?wait=25", {"input": {}}))

    def fan(self, width: int) -> None:
        self._ended(self._call("POST", "/workflows/fan/runs?wait=25", {"input": {"items": list(range(width))}}))

    def event(self) -> float:
        run = self._call("POST", "/workflows/waits/runs", {"input": {}})
        while self._call("GET", f"/runs/{run['run_id']}")["status"] != "waiting":
            pass
        began = perf_counter()
        self._call("POST", f"/runs/{run['run_id']}/events", {"name": "go", "payload": {}})
        self._call("GET", f"/runs/{run['run_id']}/result?wait=25")
        return perf_counter() - began

    def late(self) -> float:
        began = perf_counter()
        self._ended(self._call("POST", "/workflows/naps/runs?wait=25", {"input": {}}))
        return perf_counter() - began - 1

    def tail(self) -> float:
        run = self._call("POST", "/workflows/clocks/runs?wait=25", {"input": {}})
        return perf_counter() - float(run["result"])

    def cpu_seconds(self) -> float:
        return cpu_of(self._process_id)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body)
        if perf_counter() - self._called > IDLE_SECONDS:
            self._connection.close()  # the next request opens it again
        self._called = perf_counter()
        self._connection.request(method, path, sent, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {found}")
        return found

    def _ended(self, run: Any) -> None:
        if run["status"] != "completed":
            raise SystemExit(f"{run['run_id']} of {run['workflow']} is {run['status']}: {run['error']}")


@contextmanager
def serving(folder: Path, *, together: bool = False) -> Iterator[tuple[int, int]]:
    """The process and port of a dev server on the workflows of this file. `together`: it writes ten records at once."""
    durability = "batch" if together else "step"
    fork, chains = FORK.replace("DURABILITY", durability), [(f"chain{n}", _chain(n, durability)) for n in CHAINS]
    workflows = folder / "workflows"
    workflows.mkdir()
    (workflows / "steps.py").write_text(STEPS)
    for name, text in (("fan", fork), ("waits", WAITS), ("naps", NAPS), ("clocks", CLOCKS), *chains):
        (workflows / f"{name}.yaml").write_text(text)
    command = [str(Path(sys.executable).with_name("stepwell")), "dev", str(workflows), "--port", "0"]
    command += ["--data", str(folder / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            yield server.pid, _port(server)
        finally:
            server.terminate()


def _port(server: subprocess.Popen[str]) -> int:
    for line in server.stdout or ():
        if "ready http://" in line:
            return int(line.rpartition(":")[2].split()[0].rstrip("/"))
    raise SystemExit("stepwell dev did not serve")


def _chain(steps: int, durability: str) -> str:
    lines = "".join(f"  - {{name: s{number}, run: python:steps.nothing}}\n" for number in range(steps))
    return f"workflow: chain{steps}\ndurability: {durability}\ntimeline:\n{lines}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (process_id, port):
        serve(Stepwell(process_id, port), IMPORT_MS)

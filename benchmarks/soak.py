"""Half an hour of mixed runs on `stepwell dev`: whether its memory and its slowest answers stay where they were.

    uv run python benchmarks/soak.py [--minutes 30] [--rate 5] [--folder .]

Each second `rate` runs begin, of each kind in turn: a chain, a fork of twenty, a durable function, a step that fails
twice, a sleep, a wait for an event, an approval. A line for each minute: runs that ended, the median and the 99th
percentile from a chain's start to its end, the server's memory, its open files and its threads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep
from typing import Any

from stepwell.client import Client

STEPS = """
from stepwell import StepContext, Transient, step, workflow

@step
def nothing():
    return None

@step
def work(item):
    return item

@step(retry={"max_retries": 4, "initial_delay": "200ms"})
def flaky(ctx: StepContext):
    if ctx.attempt < 3:
        raise Transient("not yet")
    return ctx.attempt

@workflow
async def program(ctx, given):
    first = await ctx.step(work, 1)
    both = await ctx.all(ctx.step(work, 2), ctx.step(work, 3))
    await ctx.sleep("1s")
    return [first, *both]
"""
CHAIN = (
    "workflow: chain\ntimeline: [" + ", ".join(f"{{name: s{n}, run: python:steps.nothing}}" for n in range(10)) + "]"
)
FORK = """
workflow: fan
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input }}", as: item}]}
  work: {run: python:steps.work, input: {item: "{{ branch.item }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
"""
RETRIES = "workflow: retries\ntimeline: [{name: try, run: python:steps.flaky}]"
NAPS = "workflow: naps\ntimeline: [{name: nap, sleep: 2s}]"
WAITS = "workflow: waits\ntimeline: [{name: go, wait: {for: event, name: go, key: '{{ run.id }}'}}]"
ASKS = "workflow: asks\ntimeline: [{name: ok, wait: {for: approval}}]"
DEFINITIONS = {"chain": CHAIN, "fan": FORK, "retries": RETRIES, "naps": NAPS, "waits": WAITS, "asks": ASKS}


@dataclass
class Minute:
    """What was seen in one minute."""

    seconds: list[float] = field(default_factory=list)  # of a chain, from its start to its end
    ended: Counter[str] = field(default_factory=Counter)  # by status

    @property
    def slowest_seconds(self) -> float:
        """The 99th percentile."""
        return quantiles(self.seconds, n=100)[-1] if len(self.seconds) > 1 else max(self.seconds, default=0.0)


class Load:
    """Runs of each kind, begun by threads so that a slow one keeps no other back."""

    def __init__(self, client: Client) -> None:
        self._client, self.minute, self._lock = client, Minute(), threading.Lock()
        self._kinds = cycle(
            [self._chain, self._fan, self._program, self._retries, self._nap, self._event, self._approval]
        )

    def begin(self) -> None:
        with self._lock:
            kind = next(self._kinds)
        threading.Thread(target=self._ended, args=(kind,), daemon=True).start()

    def next_minute(self) -> Minute:
        with self._lock:
            done, self.minute = self.minute, Minute()
        return done

    def _ended(self, kind: Callable[[], Any]) -> None:
        began = monotonic()
        try:
            kind().result(timeout=60)
            status = "completed"
        except Exception as error:  # whatever goes wrong is counted by its name, and fails the soak
            status = type(error).__name__
        with self._lock:
            self.minute.ended[status] += 1
            if kind == self._chain:
                self.minute.seconds.append(monotonic() - began)

    def _chain(self) -> Any:
        return self._client.start("chain", {})

    def _fan(self) -> Any:
        return self._client.start("fan", list(range(20)))

    def _program(self) -> Any:
        return self._client.start("program", {"given": 1})

    def _retries(self) -> Any:
        return self._client.start("retries", {})

    def _nap(self) -> Any:
        return self._client.start("naps", {})

    def _event(self) -> Any:
        run = self._client.start("waits", {})
        run.signal("go", {})
        return run

    def _approval(self) -> Any:
        run = self._client.start("asks", {})
        while run.status() != "waiting":
            sleep(0.05)
        run.approve()
        return run


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """The process and the address of a dev server on the workflows of this file."""
    workflows = folder / "workflows"
    workflows.mkdir()
    (workflows / "steps.py").write_text(STEPS)
    for name, text in DEFINITIONS.items():
        (workflows / f"{name}.yaml").write_text(text)
    said = folder / "said.txt"
    command = [str(Path(sys.executable).with_name("stepwell")), "dev", str(workflows), "--port", "0"]
    with (
        said.open("w") as output,
        subprocess.Popen(
            [*command, "--data", str(folder / "data")], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        ) as server,
    ):
        try:
            yield server.pid, _address(said)
        finally:
            server.terminate()


def _address(said: Path) -> str:
    for _ in range(300):
        for line in said.read_text().splitlines():
            if "ready http://" in line:
                return "http://" + line.partition("ready http://")[2].split()[0].rstrip("/")
        sleep(0.1)
    raise SystemExit(f"stepwell dev did not serve: {said.read_text()}")


def process_state(process_id: int) -> tuple[float, int, int]:
    """Megabytes of memory, open files and threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
    files = len(list(Path(f"/proc/{process_id}/fd").iterdir()))
    return int(status["VmRSS"].split()[0]) / 1024, files, int(status["Threads"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--rate", type=float, default=5.0, help="runs that begin in a second")
    parser.add_argument("--folder", default=None, help="where its data lies; default: the folder for temporary files")
    given = parser.parse_args()
    lines: list[tuple[float, float, float]] = []
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=given.folder) as name, serving(Path(name)) as (process_id, address):
        load = Load(Client(address))
        print(f"{'minute':>6} {'ended':>6} {'median ms':>10} {'p99 ms':>8} {'MB':>7} {'files':>6} {'threads':>8}")
        began = monotonic()
        for minute in range(1, given.minutes + 1):
            while monotonic() - began < 60 * minute:
                load.begin()
                sleep(1 / given.rate)
            seen, (memory, files, threads) = load.next_minute(), process_state(process_id)
            lines.append((median(seen.seconds) * 1e3, seen.slowest_seconds * 1e3, memory))
            failed += seen.ended - Counter(completed=seen.ended["completed"])
            row = f"{minute:6} {seen.ended.total():6} {lines[-1][0]:10.1f} {lines[-1][1]:8.1f}"
            print(f"{row} {memory:7.1f} {files:6} {threads:8}", flush=True)
    third = max(given.minutes // 3, 1)
    for label, at in (("median", 0), ("p99", 1), ("memory", 2)):
        first, last = (median(line[at] for line in part) for part in (lines[:third], lines[-third:]))
        print(f"{label}: the last third ÷ the first {last / first:.2f}")
    print(f"runs that did not complete: {dict(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

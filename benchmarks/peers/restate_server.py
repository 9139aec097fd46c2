# /// script
# requires-python = ">=3.11"
# dependencies = ["restate-sdk==1.3.0", "hypercorn>=0.17"]
# ///
"""Restate: its server, from npm, and a service of its Python SDK. Its CPU is that of both processes."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from typing import Any

import restate
from rounds import cpu_of, serve

IMPORT_MS = process_time() * 1000
SERVER = "@restatedev/restate-server@1.7.12"
INGRESS, ADMIN, SERVICE = 8080, 9070, 9080  # the server's own defaults, and the SDK's
SECONDS = 60

peer = restate.Service("peer")
waits = restate.Workflow("waits")


@peer.handler()
async def chain(ctx: restate.Context, steps: int) -> int:
    for number in range(steps):
        await ctx.run_typed(f"s{number}", _nothing)
    return steps


@peer.handler()
async def fan(ctx: restate.Context, width: int) -> int:
    begun = [ctx.run_typed(f"b{number}", _nothing) for number in range(width)]
    await restate.gather(*begun)
    return len(begun)


@peer.handler()
async def naps(ctx: restate.Context, _: int) -> int:
    await ctx.sleep(timedelta(seconds=1))
    return 1


@peer.handler()
async def clock(ctx: restate.Context, _: int) -> float:
    return await ctx.run_typed("clock", _clock)


@waits.main()
async def run(ctx: restate.WorkflowContext, _: int) -> Any:
    return await ctx.promise("go").value()


@waits.handler()
async def go(ctx: restate.WorkflowSharedContext, _: int) -> None:
    await ctx.promise("go").resolve(1)


app = restate.app([peer, waits])


def _nothing() -> None:
    return None


def _clock() -> float:
    return perf_counter()


class Restate:
    name = "Restate, its server and Python SDK"
    durability = "Restate's log and RocksDB, its own defaults"

    def __init__(self, process_ids: list[int]) -> None:
        self._process_ids, self._keys = process_ids, count()
        self._connection = http.client.HTTPConnection("127.0.0.1", INGRESS, timeout=SECONDS)

    def chain(self, steps: int) -> None:
        self._call("/peer/chain", steps)

    def fan(self, width: int) -> None:
        self._call("/peer/fan", width)

    def event(self) -> float:
        key = next(self._keys)
        self._call(f"/waits/{key}/run/send", 1)
        sleep(0.3)  # until it waits
        began = perf_counter()
        self._call(f"/waits/{key}/go", 1)
        self._call(f"/restate/workflow/waits/{key}/attach", None)
        return perf_counter() - began

    def late(self) -> float:
        began = perf_counter()
        self._call("/peer/naps", 1)
        return perf_counter() - began - 1

    def tail(self) -> float:
        ended = self._call("/peer/clock", 1)
        return perf_counter() - float(ended)

    def cpu_seconds(self) -> float:
        return sum(map(cpu_of, self._process_ids))

    def _call(self, path: str, given: Any) -> Any:
        method = "GET" if given is None else "POST"
        body = None if given is None else json.dumps(given)
        self._connection.request(method, path, body, {} if given is None else {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {found!r}")
        return json.loads(found) if found else None


@contextmanager
def serving(folder: Path) -> Iterator[list[int]]:
    """The server and the service, which it knows."""
    config = folder / "restate.toml"
    config.write_text(f'base-dir = "{folder}"\nlog-filter = "error"\ndisable-telemetry = true\n')
    commands = (
        ["npx", "--yes", SERVER, "--config-file", str(config), "--no-logo"],
        [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{SERVICE}", "restate_server:app"],
    )
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, cwd=Path(__file__).parent, stdout=sys.stderr, start_new_session=True)
            )
            for command in commands
        ]
        try:
            _until_ready()
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                os.killpg(process.pid, signal.SIGTERM)  # npx leaves the server alive


def _until_ready() -> None:
    until = monotonic() + SECONDS
    while monotonic() < until:
        with suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", ADMIN, timeout=SECONDS)
            connection.request("POST", "/deployments", json.dumps({"uri": f"http://127.0.0.1:{SERVICE}"}),
                               {"content-type": "application/json"})  # fmt: skip
            if connection.getresponse().status < 300:
                return
        sleep(0.5)
    raise SystemExit("Restate's server and service did not find each other")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as process_ids:
        serve(Restate(process_ids), IMPORT_MS)

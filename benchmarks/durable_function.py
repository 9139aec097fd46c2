"""What an operation of a durable function costs, live and replayed, beside the AWS durable execution SDK for Python.

    uv run --with aws-durable-execution-sdk-python --with aws-durable-execution-sdk-python-testing \
        python benchmarks/durable_function.py

The same program on both, in one process, taken in turns: so many no-op steps in a row, a wait, and the end. Each runs
on its own local runner and its own memory: ours on the testing kit's parts, the SDK on its testing package's. Live is
all that a run takes up to its wait, divided by its steps. Replayed is what a process that does not know the run takes
from its invocation to where the program is at the wait again: reading its records included, on both sides.
Without the SDK, ours alone is measured.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.engine.durable.turns import Suspended
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.ids import new_id
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.steps.registry import Registry
from stepwell.testing.backend import ports_of

SIZES = ((1_000, 5), (10_000, 1))  # steps of a run, and rounds
SDK = "aws_durable_execution_sdk_python"
SDK_SECONDS = 600  # that a run of the SDK may take
CODE = """
from stepwell import step, workflow

@step
def nothing(number: int) -> int:
    return number

@workflow
async def chain(ctx, steps: int) -> int:
    found = 0
    for number in range(steps):
        found += await ctx.step(nothing, number)
    await ctx.event("go")
    return found
"""


def measure_ours(folder: Path, steps: int) -> tuple[float, float]:
    """CPU seconds of the run up to its wait, and of a cold replay."""
    clock = VirtualClock(1_900_000_000_000)
    store, queue = MemoryStore(), MemoryQueue(clock)
    catalog = Catalog(partial(compile_document, trusted=True), load_folder(folder).graphs)
    ports = ports_of(store, queue, clock)
    parts = assemble(
        ports,
        catalog,
        FunctionSteps(folder, clock),
        compile_expression=compile_expression,
        new_id=new_id,
        jitter=random.random,
    )
    began = process_time()
    run_id = run_now(parts.service.start(Start("chain", {"steps": steps}))).header.run_id
    while delivery := queue.receive(tuple(Lane), clock.now_ms(), 60_000):
        run_now(dispatch(parts, delivery.lane, delivery.message, Unlimited()))
        queue.delete(delivery)
    live = process_time() - began
    logbook = Logbook(ports, catalog)
    sessions = Sessions(logbook, Registry(folder))
    began = process_time()
    at = run_now(logbook.load(run_id))
    turn = None if at is None else run_now(sessions.asked(at)).turn
    replayed = process_time() - began
    if turn is None or not isinstance(turn.result, Suspended) or str(turn.result.asked) != "event go":
        raise SystemExit(f"the run does not stand at its wait: {turn}")
    return live, replayed


def measure_sdk(folder: Path, steps: int) -> tuple[float, float]:
    """The same of the SDK on its own runner."""
    from aws_durable_execution_sdk_python.config import Duration  # noqa: PLC0415 - an optional dependency
    from aws_durable_execution_sdk_python.execution import durable_execution  # noqa: PLC0415
    from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner  # noqa: PLC0415

    invoked: list[float] = []
    at_wait: list[float] = []

    @durable_execution
    def chain(event: Any, context: Any) -> int:
        found = 0
        for number in range(steps):
            found += context.step(lambda _, number=number: number, name="nothing")
        at_wait.append(process_time())
        context.wait(Duration.from_seconds(1))
        return found

    def handler(event: Any, context: Any) -> Any:
        invoked.append(process_time())
        return chain(event, context)

    with DurableFunctionTestRunner(handler=handler) as runner:
        began = process_time()
        result = runner.run(input="{}", execution_timeout=SDK_SECONDS)
    if result.status.name != "SUCCEEDED" or len(at_wait) != 2:
        raise SystemExit(f"the SDK's run ended {result.status}, after {len(invoked)} invocations")
    return at_wait[0] - began, at_wait[1] - invoked[1]


def measure(what: Callable[[Path, int], tuple[float, float]], folder: Path, steps: int) -> tuple[float, float]:
    live, replayed = what(folder, steps)
    return live / steps * 1e6, replayed / steps * 1e6


def main() -> int:
    logging.disable(logging.WARNING)
    others = [measure_sdk] if find_spec(SDK) and find_spec(f"{SDK}_testing") else []
    if not others:
        print("the SDK is not installed: see this file's first lines")
    print("CPU microseconds per operation, medians; and a cold replay of all, in milliseconds")
    print(f"{'steps':>6} {'':10} {'live':>8} {'replayed':>9} {'replay, ms':>11}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "benchmark_chain.py").write_text(CODE)
        measure_ours(folder, 100)
        for steps, rounds in SIZES:
            found = [[measure(what, folder, steps) for what in (measure_ours, *others)] for _ in range(rounds)]
            rows = [tuple(median(pair[at] for pair in of) for at in (0, 1)) for of in zip(*found, strict=True)]
            for label, (live, replayed) in zip(("stepwell", "AWS SDK"), rows, strict=False):
                print(f"{steps:6} {label:10} {live:8.1f} {replayed:9.2f} {replayed * steps / 1000:11.1f}")
            if others:
                print(f"{steps:6} {'ratio':10} {rows[1][0] / rows[0][0]:8.2f} {rows[1][1] / rows[0][1]:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "aws-durable-execution-sdk-python==3.0.0",
#   "aws-durable-execution-sdk-python-testing==1.4.0",
# ]
# ///
"""The AWS durable execution SDK for Python on its own local runner, with its store in memory."""

import json
import logging
from time import perf_counter, process_time
from typing import Any

from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.execution import durable_execution
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from rounds import serve

IMPORT_MS = process_time() * 1000
SECONDS = 120


@durable_execution
def run(event: Any, context: Any) -> float:
    """One handler, as a Lambda function has one."""
    match event["case"]:
        case "chain":
            for _ in range(event["size"]):
                context.step(lambda _: None, name="nothing")
        case "fan":
            done = context.map(list(range(event["size"])), lambda ctx, item, *_: ctx.step(lambda _: item), name="fan")
            return len(done.get_results())
        case "event":
            context.create_callback(name="go").result()
        case "late":
            context.wait(Duration.from_seconds(1))
        case "tail":
            return float(context.step(lambda _: perf_counter(), name="clock"))
    return event["size"]


class LambdaDurable:
    name = "AWS durable SDK, local runner"
    durability = "none: the runner's store in memory"

    def __init__(self, runner: DurableFunctionTestRunner) -> None:
        self._runner = runner

    def chain(self, steps: int) -> None:
        self._run("chain", steps)

    def fan(self, width: int) -> None:
        self._run("fan", width)

    def event(self) -> float:
        arn = self._runner.run_async(_input("event", 1), timeout=SECONDS)
        callback = self._runner.wait_for_callback(arn, name="go", timeout=SECONDS)
        began = perf_counter()
        self._runner.send_callback_success(callback, b"1")
        self._runner.wait_for_result(arn, timeout=SECONDS)
        return perf_counter() - began

    def late(self) -> float:
        began = perf_counter()
        self._run("late", 1)
        return perf_counter() - began - 1

    def tail(self) -> float:
        found = self._runner.run(input=_input("tail", 1), execution_timeout=SECONDS)
        return perf_counter() - float(found.result)

    def cpu_seconds(self) -> float:
        return process_time()

    def _run(self, case: str, size: int) -> None:
        found = self._runner.run(input=_input(case, size), execution_timeout=SECONDS)
        if found.status.name != "SUCCEEDED" or found.result != str(size):
            raise SystemExit(f"the SDK's {case} ended {found.status} with {found.result}")


def _input(case: str, size: int) -> str:
    return json.dumps({"case": case, "size": size})


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with DurableFunctionTestRunner(handler=run, skip_time=False, poll_interval=0.001) as runner:
        serve(LambdaDurable(runner), IMPORT_MS)

# /// script
# requires-python = ">=3.11"
# dependencies = ["durabletask==1.12.0"]
# ///
"""The Durable Task SDK on its in-memory backend: nothing is durable."""

import json
from collections.abc import Generator
from datetime import timedelta
from time import perf_counter, process_time, sleep
from typing import Any

from durabletask import task
from durabletask.client import TaskHubGrpcClient
from durabletask.testing import create_test_backend
from durabletask.worker import TaskHubGrpcWorker
from rounds import serve

IMPORT_MS = process_time() * 1000
PORT, SECONDS = 50_551, 120


def nothing(_: task.ActivityContext, number: int) -> int:
    return number


def chain(ctx: task.OrchestrationContext, steps: int) -> Generator[Any, Any, None]:
    for number in range(steps):
        yield ctx.call_activity(nothing, input=number)


def fan(ctx: task.OrchestrationContext, width: int) -> Generator[Any, Any, int]:
    found = yield task.when_all([ctx.call_activity(nothing, input=number) for number in range(width)])
    return len(found)


def clock(_: task.ActivityContext, __: None) -> float:
    return perf_counter()


def clocks(ctx: task.OrchestrationContext, _: None) -> Generator[Any, Any, float]:
    ended = yield ctx.call_activity(clock)
    return float(ended)


def waits(ctx: task.OrchestrationContext, _: None) -> Generator[Any, Any, None]:
    yield ctx.wait_for_external_event("go")


def naps(ctx: task.OrchestrationContext, _: None) -> Generator[Any, Any, None]:
    yield ctx.create_timer(timedelta(seconds=1))


class DurableTask:
    name = "durabletask, in memory"
    durability = "none: the SDK's in-memory backend"

    def __init__(self, client: TaskHubGrpcClient) -> None:
        self._client = client

    def chain(self, steps: int) -> None:
        self._ended(self._client.schedule_new_orchestration(chain, input=steps))

    def fan(self, width: int) -> None:
        self._ended(self._client.schedule_new_orchestration(fan, input=width))

    def event(self) -> float:
        name = self._client.schedule_new_orchestration(waits)
        sleep(0.3)  # until it waits
        began = perf_counter()
        self._client.raise_orchestration_event(name, "go")
        self._ended(name)
        return perf_counter() - began

    def late(self) -> float:
        began = perf_counter()
        self._ended(self._client.schedule_new_orchestration(naps))
        return perf_counter() - began - 1

    def tail(self) -> float:
        state = self._ended(self._client.schedule_new_orchestration(clocks))
        return perf_counter() - float(json.loads(state.serialized_output))

    def cpu_seconds(self) -> float:
        return process_time()

    def _ended(self, name: str) -> Any:
        state = self._client.wait_for_orchestration_completion(name, timeout=SECONDS)
        if state is None or state.runtime_status.name != "COMPLETED":
            raise SystemExit(f"durabletask's run did not complete: {state}")
        return state


if __name__ == "__main__":
    backend = create_test_backend(port=PORT)
    address = f"localhost:{PORT}"
    with TaskHubGrpcWorker(host_address=address) as worker:
        for orchestrator in (chain, fan, clocks, waits, naps):
            worker.add_orchestrator(orchestrator)
        worker.add_activity(nothing)
        worker.add_activity(clock)
        worker.start()
        serve(DurableTask(TaskHubGrpcClient(host_address=address)), IMPORT_MS)
    backend.stop()

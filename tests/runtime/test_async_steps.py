"""Async steps share the process's event loop: what asyncio makes may be module-level. Imports have their own limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import Failure
from stepwell.runtime.steps import loop
from stepwell.runtime.steps.threads import StepThreads
from stepwell.testing.kit import Stepwell
from tests.runtime.kit import Folder

Make = Callable[..., Folder]

SHARED = """
import asyncio, sys, threading
gate, ready = threading.Lock(), threading.Event()
barrier = asyncio.Barrier(2)
lock = asyncio.Lock()
numbers, doubles = asyncio.Queue(), asyncio.Queue()
connection = None

async def where(): return id(asyncio.get_running_loop())
async def meet(): await barrier.wait()
async def held():
    async with lock: await asyncio.sleep(0)
async def begin():
    global worker
    async def work():
        while True: await doubles.put(2 * await numbers.get())
    worker = asyncio.create_task(work())
async def double(n: int):
    await numbers.put(n)
    return await doubles.get()
async def echo(text: str):
    global connection
    if connection is None:
        async def serve(reader, writer):
            while line := await reader.readline(): writer.write(line)
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = await asyncio.open_connection(*server.sockets[0].getsockname())
    reader, writer = connection
    writer.write(f"{text}\\n".encode())
    return (await reader.readline()).decode().strip()
async def leaves(): sys.exit("gone")
async def blocks():
    ready.set()
    with gate: return "free"
async def spins():
    while True: pass
async def part_spins():
    async with asyncio.TaskGroup() as group: group.create_task(spins())
"""


@pytest.fixture
def shared(folder: Make) -> Folder:
    made = folder(shared=SHARED)
    assert made.run("shared.where").value  # the loop is there
    return made


def module() -> Any:
    return sys.modules["shared"]


def failed(made: Folder, name: str, timeout_ms: int = 50) -> Failure:
    failure = made.run(f"shared.{name}", timeout_ms=timeout_ms).failure
    assert failure is not None
    return failure


def test_all_async_steps_of_the_process_run_on_one_loop(shared: Folder, folder: Make) -> None:
    """Whatever thread or folder they come from."""
    other = folder("other", there=SHARED)
    with ThreadPoolExecutor() as threads:
        meeting = [threads.submit(shared.run, "shared.meet") for _ in range(2)]
        assert [one.result().failure for one in meeting] == [None, None]
    assert shared.run("shared.where").value == other.run("there.where").value == shared.run("shared.where").value


def test_a_module_level_lock_serves_steps_that_run_at_the_same_time(shared: Folder) -> None:
    with ThreadPoolExecutor() as threads:
        attempts = [threads.submit(shared.run, "shared.held") for _ in range(20)]
        assert [one.result().failure for one in attempts] == [None] * 20


def test_a_module_level_connection_is_used_by_one_step_after_the_other(shared: Folder) -> None:
    assert [shared.run("shared.echo", {"text": text}).value for text in ("one", "two")] == ["one", "two"]


def test_a_task_that_a_step_leaves_behind_goes_on(shared: Folder) -> None:
    """A client's keep-alive, say."""
    shared.run("shared.begin")
    assert [shared.run("shared.double", {"n": n}).value for n in (1, 2)] == [2, 4]
    module().worker.get_loop().call_soon_threadsafe(module().worker.cancel)


def test_a_step_that_leaves_the_interpreter_fails_alone(shared: Folder) -> None:
    before = shared.run("shared.where").value
    assert failed(shared, "leaves", 5_000).type == "SystemExit"
    assert shared.run("shared.where").value == before


@pytest.mark.parametrize("name", ["spins", "part_spins"])
def test_a_step_that_computes_past_its_limit_gives_the_loop_back(shared: Folder, name: str) -> None:
    before = shared.run("shared.where").value
    failure = failed(shared, name)
    assert (failure.type, failure.message) == ("step_timeout", "n did not end within 0.05 s")
    assert failure.raised is None  # a function catches a plain StepFailed, which has this text
    assert shared.run("shared.where").value == before


@pytest.fixture
def blocked(shared: Folder) -> Iterator[Any]:
    """A step holds the loop, out of reach of any interrupt, until `gate` is released."""
    gate = module().gate
    gate.acquire()
    yield gate
    if gate.locked():
        gate.release()


def test_a_step_that_blocks_for_good_does_not_stop_the_steps_after_it(shared: Folder, blocked: Any) -> None:
    before = shared.run("shared.where").value
    assert failed(shared, "blocks").type == "step_timeout"
    assert shared.run("shared.where").value != before


def test_a_step_whose_loop_another_one_blocks_says_so(shared: Folder, blocked: Any) -> None:
    with ThreadPoolExecutor() as threads:
        attempt = threads.submit(shared.run, "shared.blocks", timeout_ms=60_000)
        module().ready.wait(60)
        assert failed(shared, "where").message == f"n did not end within 0.05 s; {loop.HELD}"
        blocked.release()
        assert attempt.result().value == "free"


# -- imports


class Imports:
    """The limit under which each module was imported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits: dict[str, float] = {}
        start = StepThreads.start

        def spy(threads: StepThreads, function: Callable[[], object], limit_seconds: float, *then: Any) -> Any:
            def work() -> object:
                before = set(sys.modules)
                made = function()
                self.limits |= dict.fromkeys(set(sys.modules) - before, limit_seconds)
                return made

            return start(threads, work, limit_seconds, *then)

        monkeypatch.setattr(StepThreads, "start", spy)


def test_the_import_of_a_module_does_not_count_to_the_limit_of_its_step(
    folder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = Imports(monkeypatch)
    assert folder(heavy="def f(): return 1").run("heavy.f", timeout_ms=1_000).value == 1
    assert imports.limits["heavy"] == 300


def test_the_import_of_a_module_does_not_count_to_the_limit_of_a_function_s_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = Imports(monkeypatch)
    (tmp_path / "heavier.py").write_text("from stepwell import workflow\n@workflow\nasync def flow(ctx): return 1\n")
    stepwell = Stepwell(tmp_path)
    assert stepwell.start("flow").result == 1
    assert imports.limits["heavier"] == 300

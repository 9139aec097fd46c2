"""Large outputs of a function's tasks stand once in the log, and whoever asks for them gets them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.store import MemoryStore
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell

CODE = """
import asyncio
from stepwell import step, workflow

@step
def fetch(name: str, size: int) -> str:
    return name * size

@step
def last(ok: str) -> str:
    return ok

@workflow
async def gathered(ctx, size: int, width: int = 3):
    found = await asyncio.gather(*(ctx.step(fetch, chr(97 + n), size) for n in range(width)))
    await ctx.event("go")
    await ctx.step(last, "ok")
    return [one[:2] + str(len(one)) for one in found]

@workflow
async def nested(ctx, size: int):
    async def two():
        a, b = await asyncio.gather(ctx.step(fetch, "a", size), ctx.step(fetch, "b", size))
        return len(a) + len(b)
    return await ctx.all(two(), two())
"""
SIZES = (1_100, 150_000)  # in the record; as a blob


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def kit(folder: Path) -> Stepwell:
    return Stepwell(folder, sessions=0)  # each turn is a replay


def memory_of(kit: Stepwell) -> MemoryStore:
    memory = kit.service.ports.log
    assert isinstance(memory, MemoryStore)
    return memory


def stored(kit: Stepwell, text: str) -> int:
    """In how many records, or blobs of records, the text stands."""
    blobs = kit.service.ports.blobs
    assert isinstance(blobs, MemoryBlobs)
    bodies = [one.body.encode() for log in memory_of(kit)._logs.values() for one in log.records.values()]
    return sum(text.encode() in one for one in (*bodies, *blobs._blobs.values()))


def ended(run: Run) -> list[int]:
    return [len(one["data"]["output"]) for one in run.history if one["type"] == "operation.ended"]


@pytest.mark.parametrize("size", SIZES)
def test_a_replay_gives_the_function_what_its_operations_have_brought(kit: Stepwell, size: int) -> None:
    run = kit.start("gathered", {"size": size})
    run.event("go")
    assert run.result == [f"aa{size}", f"bb{size}", f"cc{size}"]
    assert stored(kit, "b" * size) == 1


def test_the_history_the_export_and_an_operation_show_them(kit: Stepwell) -> None:
    run = kit.start("gathered", {"size": 1_100})
    assert ended(run) == [1_100] * 3
    lines = [json.dumps(line) for line in run.export()]
    assert [("b" * 1_100 in line, "output_at" in line) for line in lines].count((True, False)) == 2
    assert not any("output_at" in line for line in lines)
    assert [one.difference for one in kit.replay(run)] == [None]


def test_tasks_of_branches_do_the_same(kit: Stepwell) -> None:
    run = kit.start("nested", {"size": 1_100})
    assert run.result == [2_200, 2_200]
    assert ended(run) == [1_100] * 4
    assert stored(kit, "b" * 1_100) == 2


def test_runs_that_go_on_from_another_have_them_too(kit: Stepwell) -> None:
    """Their logs are copies: of the operation as of the function."""
    kit.mock("last", raises=ValueError("no luck"), times=1)
    failed = kit.start("gathered", {"size": 1_100})
    failed.event("go")
    assert failed.status == "failed"
    again = failed.redrive()
    memory = memory_of(kit)
    memory._logs = {place: log for place, log in memory._logs.items() if place[0] != failed.id}  # it is gone
    assert again.result == ["aa1100", "bb1100", "cc1100"]
    assert ended(again) == [1_100] * 3


def test_a_replay_reads_a_hundred_of_them_at_once(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kit.start("gathered", {"size": 1_100, "width": 100})
    assert run.status == "waiting"
    asked: list[int] = []
    read = MemoryStore.read_bodies

    async def read_bodies(self: MemoryStore, run_id: str, places: Sequence[tuple[str, int]]) -> Mapping[Any, str]:
        asked.append(len(places))
        return await read(self, run_id, places)

    monkeypatch.setattr(MemoryStore, "read_bodies", read_bodies)
    run.event("go")
    assert len(run.result) == 100
    assert asked == [100] * len(asked)
    assert len(asked) <= 3


def test_what_a_run_costs_is_told_without_them(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kit.start("gathered", {"size": 1_100})
    at = run_now(kit.service.standing(run.id))
    before = run_now(kit.service.surveyed_with_cost(at))
    monkeypatch.setattr(MemoryStore, "read_bodies", None)  # nobody calls it
    assert run_now(kit.service.surveyed_with_cost(at)) == before

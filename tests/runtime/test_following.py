"""A watcher's cursor: what a branch commits late follows it, and what is settled does not come again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.memory.store import MemoryStore
from stepwell.runtime.calls import following
from stepwell.runtime.calls.following import entries_since
from stepwell.runtime.calls.service import Service
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.live import Topic
from tests.api.kit import World
from tests.durable.conftest import Flows, flows

__all__ = ["flows"]  # the fixture

FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.names }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: ask, when: "state.name == 'eva'"}, {to: gather}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: nap}]}
  nap: {sleep: 60s}
"""
ABANDONED = """
workflow: abandoned
nodes:
  begin: {fan_out: all, transitions: [{to: quick}, {to: ask}]}
  quick: {transitions: [{to: gather}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: any, on_early_complete: abandon}, transitions: [{to: nap}]}
  nap: {sleep: 1h}
"""
TASKS = """
import asyncio
from stepwell import Retry, step, workflow

@step
def cook(dish: str) -> str:
    if dish == "soup":
        raise ConnectionError("no gas")
    return dish

@workflow
async def dinner(ctx):
    again = Retry(1, initial_delay="1h")
    slow = asyncio.ensure_future(ctx.step(cook, "soup", retry=again))
    await asyncio.sleep(0)
    await ctx.step(cook, "rice")
    await ctx.step(cook, "fish")
    return await slow
"""


class Watcher:
    """Asks as a watcher does, page by page, and knows entries by their ids."""

    def __init__(self, service: Service, run_id: str) -> None:
        self._service, self._run_id, self.cursor = service, run_id, ""
        self.known: set[str] = set()

    def ask(self) -> list[str]:
        """Returns the ids of all the entries that came."""
        came: list[str] = []
        is_more = True
        while is_more:
            frame: dict[str, Any] = json.loads(run_now(entries_since(self._service, Topic(self._run_id), self.cursor)))
            came += [one["entry"]["id"] for one in frame["entries"]]
            self.cursor, is_more = frame["cursor"], frame["more"]
        self.known.update(came)
        return came


@contextmanager
def without(store: MemoryStore, run_id: str, token: str, slots: range) -> Iterator[None]:
    """As before a worker committed these records of the token."""
    log = store._logs[run_id, token]
    late = {slot: log.records.pop(slot) for slot in slots if slot in log.records}
    assert late
    yield
    log.records.update(late)
    log.records = dict(sorted(log.records.items()))


@pytest.fixture
def world() -> World:
    made = World(FORKED)
    made.steps.functions["python:m.score"] = lambda call: Outcome(call.node)
    return made


@pytest.mark.parametrize("page", [1, 2, 100])
def test_what_a_branch_commits_late_follows_the_cursor(
    world: World, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(following, "LIVE_PAGE_ENTRIES", page)
    run_id = world.start("forked", input={"names": ["ana", "leo", "eva"]})
    whole = Watcher(world.parts.service, run_id).ask()
    for branch in ("0/0.0", "0/0.1", "0/0.2"):
        watcher = Watcher(world.parts.service, run_id)
        with without(world.store, run_id, branch, range(9)):
            assert len(watcher.ask()) < len(whole)
        watcher.ask()
        assert watcher.known == set(whole)


def test_what_is_settled_does_not_come_again(world: World) -> None:
    run_id = world.start("forked", input={"names": ["ana", "eva"]})
    watcher = Watcher(world.parts.service, run_id)
    first = watcher.ask()
    inside = [one for one in first if not one.startswith("0@")]
    assert inside
    assert watcher.ask() == inside
    assert world.post(f"/runs/{run_id}/approve", {"by": "kim"}).status == 200
    world.drain()
    assert set(watcher.ask()) > set(inside)
    assert watcher.cursor.startswith("0@")
    assert watcher.ask() == []


@pytest.mark.parametrize("page", [1, 2, 100])
def test_what_an_abandoned_branch_commits_follows_the_cursor(monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    """The run has gone on beyond their join."""
    monkeypatch.setattr(following, "LIVE_PAGE_ENTRIES", page)
    world = World(ABANDONED)
    run_id = world.start("abandoned")
    watcher = Watcher(world.parts.service, run_id)
    watcher.ask()
    assert world.post(f"/runs/{run_id}/approve", {"wait": "0/0.1"}).status == 200
    world.drain()
    watcher.ask()
    assert watcher.known == set(Watcher(world.parts.service, run_id).ask())
    assert any(one.startswith("0/0.1@1.") for one in watcher.known)


@pytest.mark.parametrize("page", [1, 2, 100])
def test_what_a_task_commits_late_follows_the_cursor(flows: Flows, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    """Its function has gone on beside it, and its entries stand among the function's own."""
    monkeypatch.setattr(following, "LIVE_PAGE_ENTRIES", page)
    kit = flows(TASKS)
    run_id = kit.start("dinner", {}).id
    kit.advance("1s")
    whole = Watcher(kit.service, run_id).ask()
    watcher = Watcher(kit.service, run_id)
    with without(kit._items, run_id, "0/0.0", range(9)):
        before = watcher.ask()
    assert before == [one for one in whole if not one.startswith("0/0.0@")]
    assert before != whole
    watcher.ask()
    assert watcher.known == set(whole)

"""One event has one id: what is told as it happens, and what the history shows later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from stepwell.engine.entries import Entry
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import TOLD, Teller
from tests.runtime.kit import NOW_MS, World, fails

CHAIN = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
LOCKED = CHAIN.replace("timeline", "lock: l\ntimeline")
LIMITED = CHAIN.replace("timeline", "concurrency: {limit: 1}\ntimeline")
WAITS = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}, {name: a, run: python:m.a}]"
DAG = "workflow: flow\nsteps: [{name: a, run: python:m.a}, {name: b, run: python:m.b, depends_on: [a]}]"

DEFINITIONS = {"chain": CHAIN, "lock": LOCKED, "limit": LIMITED, "wait": WAITS, "dag": DAG}


class Watched:
    """A store whose changes go to a teller right after they were made, in their order, as from a stream."""

    def __init__(self, world: World) -> None:
        self.inner, self.world = world.store.inner, world
        self.told: dict[str, dict[str, Entry]] = {}
        self._teller = Teller(self.inner, self.inner, self.inner, world.blobs)
        self._headers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            made = await method(*args, **named)
            for run_id in {*self.inner._runs}:
                before, after = self._headers.get(run_id), self.inner._runs[run_id]
                if before != after:
                    self._headers[run_id] = after
                    self._keep(self._teller.header_changed(before, after))
            if name == "append" and made is None:
                self._keep(await self._teller.appended(*args[:4]))
            return made

        return call

    def _keep(self, notices: list[Any]) -> None:
        for notice in notices:
            self.told.setdefault(notice.run.run_id, {})[notice.entry.id] = notice.entry


def plain(world: World) -> None:
    world.start()


def idle(world: World) -> None:
    run_now(world.service.start_idle(world.start(create_only=True)))


def later(world: World) -> None:
    world.start(start_at_ms=NOW_MS + 60_000)


def twice(world: World) -> None:
    world.start()
    world.start()


def cancelled_at_once(world: World) -> None:
    run_now(world.service.cancel(world.start()))


def cancelled_in_its_first_step(world: World) -> None:
    run_id = world.start()
    world.steps.of["a"] = lambda _: run_now(world.service.cancel(run_id))


WAYS = [plain, idle, later, twice, cancelled_at_once, cancelled_in_its_first_step]


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
@pytest.mark.parametrize(
    "definition", [CHAIN, LOCKED, LIMITED, WAITS, DAG], ids=["chain", "lock", "limit", "wait", "dag"]
)
def test_what_is_told_as_it_happens_has_the_ids_of_the_history(definition: str, way: Callable[[World], None]) -> None:
    world = World(definition)
    watched = world.store.inner = Watched(world)
    way(world)
    world.deliver()
    world.pass_time(120_000)
    check(world, watched)


@pytest.mark.parametrize("failed", ["a", "b"])
@pytest.mark.parametrize("definition", [CHAIN, LIMITED, DAG], ids=["chain", "limit", "dag"])
def test_so_has_what_is_told_of_a_run_that_goes_on_from_another(definition: str, failed: str) -> None:
    """Its `run.started` had the id of its `run.redriven`, or of no entry."""
    world = World(definition)
    watched = world.store.inner = Watched(world)
    world.steps.of[failed] = lambda _: fails("Broken", "validation")
    run_id = world.start()
    world.pass_time(60_000)
    del world.steps.of[failed]
    world.clock.advance(1_000)
    other = run_now(world.service.redrive(run_id)).header.run_id
    world.pass_time(60_000)
    assert world.header(other).status == "completed"
    assert "run.redriven" in [entry.type for entry in watched.told[other].values()]
    check(world, watched)


def check(world: World, watched: Watched) -> None:
    """Both have the same entries, but for those that were told of the run that one goes on from."""
    for run_id, header in watched.inner._runs.items():
        found = run_now(history(world, run_id))
        own = [entry for entry in found if not header.origin or entry.at_ms >= header.created_ms]
        assert kinds(watched.told[run_id].values()) == kinds(own)


def kinds(entries: Iterable[Entry]) -> dict[str, str]:
    return {entry.id: entry.type for entry in entries if entry.type in TOLD}


async def history(world: World, run_id: str) -> list[Entry]:
    narrator = await world.service.narrator(run_id)
    return [entry async for entry in narrator.entries()]

"""Worlds with many failed runs, and batches on them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stepwell.api.runs.views import read_run
from stepwell.definition.graph import Json
from stepwell.errors import PortError
from stepwell.runtime.calls.batching import Batch
from stepwell.runtime.loop.driving import run_now
from tests.lifecycle.test_redrive import Luck
from tests.runtime.kit import World

FLOW = """
workflow: flow
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: ship, run: python:shop.ship}
  - {name: tell, run: python:shop.tell}
"""
WAITS = """
workflow: waits
timeline:
  - {name: hold, wait: {for: event, name: go, key: "{{ input.n }}", timeout: 7d}}
"""
APPROVED = FLOW.replace("run: python:shop.tell", "wait: {for: approval}")


def failed_world(count: int, world: World | None = None) -> tuple[World, Luck, list[str]]:
    """A world with so many runs that failed at `ship`, which is broken still."""
    world = world or World(FLOW, WAITS)
    luck = Luck(world, "ship")
    ids = [world.start(given={"n": n}, tags={"customer": f"c{n % 3}"}) for n in range(count)]
    world.pass_time(60_000)
    assert {world.header(run_id).status for run_id in ids} == {"failed"}
    return world, luck, ids


def batch(world: World, action: str = "redrive", **options: Any) -> str:
    """The id of the run that is the batch."""
    given = Batch(action, **({"workflow": "flow"} | options))
    return run_now(world.service.batch(given)).header.run_id


def report(world: World, job: str) -> Json:
    return run_now(read_run(world.service, job))["state"]["report"]


class Mortal:
    """A store at which a caller dies in these calls of all, before they are made or after."""

    def __init__(self, world: World, *calls: int) -> None:
        self._inner, self._left, self._calls, self.killed = world.store.inner, [*calls], 0, 0
        world.store.inner = self

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self._calls += 1
            dies = self._calls in self._left
            self.killed += dies
            if dies and self.killed % 2:
                raise PortError("away")
            made = await method(*args, **named)
            if dies:
                raise PortError("no answer")
            return made

        return call


def pass_time(world: World, duration_ms: int) -> None:
    """As the world does it; whoever dies at a message leaves it to come again."""
    until_ms = world.clock.now_ms() + duration_ms
    while world.clock.now_ms() < until_ms:
        try:
            world.pass_time(until_ms - world.clock.now_ms())
        except PortError:
            continue


def done(world: World, action: str = "redrive", **options: Any) -> Json:
    """What a batch reports, once it has ended."""
    job = batch(world, action, **options)
    world.pass_time(3 * 3_600_000)
    assert world.header(job).status == "completed"
    return report(world, job)


def ran(world: World, node: str) -> Counter[str]:
    """How often a step ran, by the first run of the chain that it is of: `n` of its input."""
    return Counter(str(call.state.get("n", call.input.get("n"))) for call in world.steps.calls if call.node == node)

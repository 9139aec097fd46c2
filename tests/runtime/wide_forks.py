"""Forks by their width, over plain memory: what a branch takes of time, and an invocation of memory.

python -m tests.runtime.wide_forks [width …]
"""

from __future__ import annotations

import argparse
import gc
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time

from stepwell.engine.records import Kind
from stepwell.limits import FORKS_KEPT
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from tests.runtime.kit import World

WIDE = """
workflow: flow
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input }}"}]}
  score: {run: python:m.score, output: {score: "{{ result }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: found}, transitions: [{to: done}]}
  done: {}
"""


def started(width: int, forks_kept: int = FORKS_KEPT) -> tuple[World, str]:
    """A run that is to fork; `forks_kept`: 0 for workers that are cold at every message."""
    world = World(WIDE, forks_kept=forks_kept)
    world.steps.of["score"] = lambda call: call.input["item"]
    return world, world.start(given=list(range(width)))


def received(world: World) -> list[Delivery]:
    """All that is due, taken off the queue."""
    found = []
    while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000)) is not None:
        world.queue.delete(one)
        found.append(one)
    return found


def handle(world: World, one: Delivery) -> None:
    run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))


def twice_in_any_order(world: World) -> int:
    """Handles all messages, and those that follow from them. Returns how many that were."""
    handled, chance = 0, random.Random(3)
    while messages := received(world) * 2:
        chance.shuffle(messages)
        for one in messages:
            handle(world, one)
        handled += len(messages)
    return handled


@dataclass(frozen=True)
class Peaks:
    """The most bytes that one invocation allocated at a time."""

    fork: int
    cold: int  # ten branches, of a worker that had not read the fork
    warm: int  # ten branches, of one that had
    join: int


def peaks(width: int, every: int) -> Peaks:
    """Looks at one message of so many, for it takes time to follow each allocation.

    Of those to branches a tenth is left out: in them a dictionary of the store grew, which here is part of it all.
    """
    world, _ = started(width)
    fork = _peak(partial(handle, world, received(world)[0]))
    messages, found = received(world), []
    for number, one in enumerate(messages):
        world.steps.calls.clear()
        if number % every == 0 or number == len(messages) - 1:
            found.append(_peak(partial(handle, world, one)))
        else:
            handle(world, one)
    return Peaks(fork, cold=found[0], warm=sorted(found[1:-1])[len(found) * 9 // 10 - 2], join=found[-1])


def _peak(act: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def taken_ms(width: int, forks_kept: int = FORKS_KEPT) -> tuple[float, float]:
    """(wall, CPU) milliseconds of a run for each of its branches."""
    gc.collect()
    world, _ = started(width, forks_kept)
    wall, cpu = perf_counter(), process_time()
    world.deliver()
    return (perf_counter() - wall) * 1_000 / width, (process_time() - cpu) * 1_000 / width


def main() -> None:
    """Prints a line for each width."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.wide_forks", description=__doc__)
    parser.add_argument("widths", type=int, nargs="*", default=(100, 1_000, 10_000))
    taken_ms(100)
    for width in parser.parse_args().widths:
        warm, cold, most = taken_ms(width), taken_ms(width, 0), peaks(width, max(width // 500, 1))
        print(
            f"{width:6}: a branch {warm[0]:.2f} ms (CPU {warm[1]:.2f}), cold {cold[0]:.2f} ms (CPU {cold[1]:.2f});"
            f" an invocation {most.warm // 1_000} KB, cold {most.cold // 1_000} KB, the one that forks"
            f" {most.fork // 1_000} KB, the one that joins {most.join // 1_000} KB"
        )
        world, run_id = started(width)
        handled = twice_in_any_order(world)
        kinds = [record.kind for record in run_now(world.service.records(run_id))]
        print(f"        each message twice, {handled} in any order: {kinds.count(Kind.JOINED)} join")


if __name__ == "__main__":
    main()

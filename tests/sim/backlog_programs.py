"""Programs of every family on workers whose invocations are short, behind a queue that is backed up.

start   0 ──── its message waits in the queue ───────────────────────▶ both are delivered
sweeper         └─ the run stands still: a spare message ───────────▶
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stepwell.definition.graph import Node
from stepwell.limits import MINUTE_MS, SECOND_MS, STEP_TIMEOUT_MS
from stepwell.runtime.ports import Lane
from tests.sim.actors import START_MS, Envelope
from tests.sim.programs import Program

if TYPE_CHECKING:
    from tests.sim.world import World

STILL_MS = 5 * MINUTE_MS
_EVERY_S = 300  # a sweep
_INVOCATIONS_MS = (10_000, 60_000, 5 * MINUTE_MS, 15 * MINUTE_MS)
_PARTS = (0.0, 0.02, 0.3, 0.5, 0.8)  # of an invocation, which a step takes
_UNTIL_S = (0, 1, 620, 905, 1_210, 1_510, 2_410)
_LAST_S = 2_700  # by then a sweep has found each run whose message was lost


@dataclass(frozen=True)
class Backlog:
    """How long an invocation lasts, when the queue delivers no message to a worker, and when the sweeper looks."""

    invocation_ms: int
    held_s: tuple[tuple[int, int], ...]  # from when until when, after the start
    sweeps_s: tuple[int, ...]
    loses_start: bool  # who starts the run dies before it sends the message, and is not asked again


def with_backlog(program: Program, rng: random.Random) -> Program:
    """Returns the program with steps that take a part of an invocation each. Some set a time limit of their own."""
    invocation_ms = rng.choice(_INVOCATIONS_MS)
    takes_ms = tuple(int(invocation_ms * part) for part in rng.sample(_PARTS, 3))
    limits_ms = (None, None, None, max(takes_ms) or SECOND_MS, invocation_ms, 15 * MINUTE_MS)
    until_s = rng.choice(_UNTIL_S)
    again_s = until_s + rng.choice((2, 60, 900))
    held_s = ((0, until_s), (again_s, again_s + rng.choice(_UNTIL_S)))[: rng.choice((1, 1, 2))]
    first_s = rng.randrange(_EVERY_S)
    sweeps_s = tuple(first_s + _EVERY_S * number for number in range(rng.randint(1, 9)))
    loses_start = rng.random() < 0.25 and not (program.idle or program.start_after_ms)
    backlog = Backlog(invocation_ms, held_s, (*sweeps_s, *((_LAST_S,) * loses_start)), loses_start)
    made = _with_limits(program, rng, takes_ms, limits_ms)
    return replace(made, backlog=backlog, callees=tuple(_with_limits(one, rng, takes_ms, limits_ms)
                                                        for one in program.callees))  # fmt: skip


def _with_limits(
    program: Program, rng: random.Random, takes_ms: tuple[int, ...], limits_ms: tuple[int | None, ...]
) -> Program:
    nodes = {name: _limited(node, rng.choice(limits_ms)) for name, node in program.graph.nodes.items()}
    return replace(program, graph=replace(program.graph, nodes=nodes), takes_ms=takes_ms)


def _limited(node: Node, limit_ms: int | None) -> Node:
    return node if node.step is None else replace(node, step=replace(node.step, timeout_ms=limit_ms))


def make_backlog(world: World) -> None:
    """Posts the sweeps. Workers hand over for want of time, and not by chance."""
    backlog = world.main.backlog
    world.chances.hands_over = True
    for after_s in backlog.sweeps_s if backlog else ():
        world.post(Envelope("client", {"type": "sweep"}, START_MS + after_s * SECOND_MS))


def duration_ms(world: World, call: Any) -> int:
    """Returns how long a step takes: where invocations are short, no longer than it may."""
    takes_ms = world.main.duration_ms(call)
    if world.main.backlog is None:
        return takes_ms
    node = world.programs[call.workflow].graph.nodes.get(call.node)
    limit_ms = None if node is None or node.step is None else node.step.timeout_ms
    return min(takes_ms, STEP_TIMEOUT_MS if limit_ms is None else limit_ms)


def delivered_ms(world: World, lane: Lane, at_ms: int) -> int:
    """Returns when the queue delivers a message that is due: a worker's comes once it is not backed up any more."""
    if world.main.backlog is None or lane is not Lane.WORK:
        return at_ms
    for since_s, until_s in world.main.backlog.held_s:
        if START_MS + since_s * SECOND_MS <= at_ms < START_MS + until_s * SECOND_MS:
            return START_MS + until_s * SECOND_MS + world.rng.choice((0, 0, 0, 500, 5_000))
    return at_ms


def is_lost(world: World, lane: Lane) -> bool:
    """Tells whether this message is the one that nobody sends, and notes that it is lost."""
    backlog, actor = world.main.backlog, world.current
    if backlog is None or not backlog.loses_start or world.has_lost or lane is not Lane.WORK or actor is None:
        return False
    world.has_lost = actor.envelope.body["type"] == "start"
    return world.has_lost

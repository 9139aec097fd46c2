"""Programs of every family whose clients call anything in any phase: too early, twice, and after the run's end.

a call waits for the phase of the run's root ── there it is posted ── and meets what the run has become by then
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.definition.graph import Node, Step, Wait
from stepwell.engine.records import ROOT
from stepwell.engine.table import ENDED, RECEPTION, Phase
from tests.sim.actors import Envelope
from tests.sim.deploying import deploy
from tests.sim.programs import Program, Undoing
from tests.sim.tree import RUN
from tests.sim.undo_programs import make_saga

if TYPE_CHECKING:
    from tests.sim.world import World

_OPERATIONS = ("approve", "reject", "delegate", "begin", "pause", "unpause", "cancel", "terminate")
_RARELY = frozenset({"cancel", "terminate"})  # a run that ends at once meets nothing else
_UNDOES = (Phase.COMPENSATING, Phase.WAITING_TO_COMPENSATE)
_WHEN_S = (0, 0, 0, 0, 0, 1, 5, 61)
_APPENDS = frozenset({"append", "consume"})
_ENDING = frozenset({"cancel", "terminate", "post"})
_OVERTAKEN = 0.2
_STALLED_MS = (1, 1_000, 40_000, 4_000_000)
STALLS = 0.05
_BROKEN_CALLS = 150
_RESTING = tuple(dict.fromkeys(phase for phase, _ in RECEPTION))
PEOPLE = ("ana", "leo")


def with_calls(program: Program, rng: random.Random) -> Program:
    """Returns the program with more calls. An accepted pause ends by itself, after `held_s`."""
    program = make_saga(rng) if not program.asks and rng.random() < 0.1 else program
    if any(ask["type"] == "update" for ask in program.asks):
        program = _with_own_waits(program, rng)
    elif any(operation == "beat" for operation, _ in program.calls) and rng.random() < 0.5:
        program = _with_approval(program)
    if program.undoing is None and not program.graph.replays and rng.random() < 0.4:
        program = _undone(program)
    asks = [_ask(rng, one, rng.choice(_RESTING), number) for number, one in enumerate(_chosen(program, rng))]
    if program.undoing is not None and rng.random() < 0.5:  # it waits for code before it can be undone
        asks.append({"type": "break", "phase": Phase.COMPENSATING})
        asks += [_ask(rng, one, rng.choice(_UNDOES)) for one in rng.sample(_OPERATIONS, 5)]
    return replace(program, asks=(*program.asks, *asks), voters=program.voters or PEOPLE)


def _chosen(program: Program, rng: random.Random) -> list[str]:
    own = {one for one, _ in program.calls if one in {"beat", "post"}}
    own |= {"update"} if any(ask["type"] == "update" for ask in program.asks) else set()
    chosen = rng.choices([*_OPERATIONS, *sorted(own) * 4], k=rng.randint(12, 36))
    return [one for one in chosen if one not in _RARELY or rng.random() < 0.3]


def _ask(rng: random.Random, operation: str, phase: Phase, number: int = 0) -> Mapping[str, Any]:
    more: dict[str, Any] = {}
    if operation == "pause":
        more = {"held_s": rng.choice(_WHEN_S)}
    if operation == "update":
        more = {"name": "add", "input": {"n": 2}, "id": f"x{number}"}
    return {"type": operation, "phase": phase, "after_s": rng.choice(_WHEN_S), **more}


def _with_own_waits(program: Program, rng: random.Random) -> Program:
    """A durable function that also waits alone, for an approval or a child run, while updates come."""
    kid = {"do": "child", "workflow": "kid0", "given": {"body": [{"do": "sleep", "seconds": 30}]}, "seconds": 3_600}
    waits = [{"do": "approval", "seconds": rng.choice([5, 100])}, *([kid] if program.callees else [])]
    body = [*program.input["body"]]
    body.insert(rng.choice([0, len(body)]), rng.choice(waits))
    return replace(program, input={**program.input, "body": body})


def _with_approval(program: Program) -> Program:
    """Returns the program with an approval beside its callback, so that a person may answer instead."""
    (name, wait), *_ = [(name, node.wait) for name, node in program.graph.nodes.items() if node.wait is not None]
    either = Wait(
        "any", arms=(replace(wait, timeout_ms=None), Wait("approval")), timeout_ms=3_600_000, on_timeout="continue"
    )
    node = replace(program.graph.nodes[name], wait=either)
    return replace(program, graph=replace(program.graph, nodes={**program.graph.nodes, name: node}))


def break_code(world: World) -> None:
    """Deploys broken code, which is mended once the run has ended, or after _BROKEN_CALLS calls."""
    deploy(world, "break")
    world.mended_by = world.calls + _BROKEN_CALLS


def _undone(program: Program) -> Program:
    """The same workflow, undone if it is cancelled."""
    nodes = {name: _undoable(node) for name, node in program.graph.nodes.items()}
    graph = replace(program.graph, nodes=nodes, failure_policy="compensate", compensate_on=frozenset({"cancel"}))
    return replace(program, graph=graph, undoing=Undoing())


def _undoable(node: Node) -> Node:
    if node.step is None or not node.step.run.startswith("python:"):
        return node
    return replace(node, compensate=Step(f"python:sim.un{node.name}"))


def overtake(world: World, name: str, args: tuple[Any, ...]) -> None:
    """Lets a call that ends the run or its wait come first while an actor is about to append."""
    if not world.awaited or name not in _APPENDS or world.current is None:
        return
    body = world.current.envelope.body
    if world.rng.random() > (_OVERTAKEN if body["type"] == "wake" else 2 * _OVERTAKEN):
        return
    ending = [ask for ask in world.awaited if ask["type"] in _ENDING]
    if ending:
        ask = world.rng.choice(ending)
        world.awaited.remove(ask)
        called = ask if args[0] == RUN else {**ask, "type": f"{ask['type']} child", "run": args[0]}
        world.post(Envelope("client", called, world.now_ms))
        world.urgent.append(world.envelopes[-1])


def stall(world: World) -> None:
    """Stalls a client for a while, so that what it has read grows old."""
    chances, actor = world.chances, world.current
    if chances.stalls and actor and actor.envelope.kind == "client" and world.rng.random() < chances.stalls:
        world.stalled += 1
        actor.until_ms = world.now_ms + world.rng.choice(_STALLED_MS)
        world.busy_until_ms = max(world.busy_until_ms, actor.until_ms)


def post_calls(world: World) -> None:
    """Posts the calls that wait for the phase that the run's root has reached."""
    root = world.logs.look().tokens.get(ROOT)
    phase = Phase.INITIALIZING if root is None else root.phase
    if world.mended_by and (phase in ENDED or world.calls > world.mended_by):
        world.mended_by = 0
        deploy(world, "mend")
    for ask in [one for one in world.awaited if one["phase"] == phase]:
        world.awaited.remove(ask)
        if ask["type"] == "break":
            break_code(world)
        else:
            world.post(Envelope("client", ask, world.now_ms + ask["after_s"] * 1_000))

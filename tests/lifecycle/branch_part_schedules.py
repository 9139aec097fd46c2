"""Random schedules of redriven waits in branches: each gets what it had, and no other one gets it.

failed run   branches wait ── documents, events, for any of them ── the time of one is up, or the run is cancelled
redrives     held up at a call ── each part once more, to its branch alone ── dies ── another caller does the same
new run      each branch takes its own parts once, and gets the others late
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from stepwell.definition.graph import END, FanIn, Node, Rule, Step
from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, Kind, Record, Resumption, Status
from stepwell.engine.token import Token
from stepwell.engine.waits import branch_topic, run_topic
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle import part_schedules
from tests.lifecycle.fork_schedules import logs_of
from tests.lifecycle.schedules import log_of
from tests.sim import schedule
from tests.sim.clients import post_clients
from tests.sim.fork_laws import BrokenLawError
from tests.sim.fork_programs import items
from tests.sim.kept import kept_values
from tests.sim.programs import Program
from tests.sim.snags import make_snags
from tests.sim.tree import RUN
from tests.sim.world import World

WIDTH = 2


def program_of(seed: int) -> Program:
    """The wait of `part_schedules`, in each of two branches, with more events, for whichever takes them."""
    made = part_schedules.program_of(seed)
    rng = random.Random(f"branch parts {seed}")
    over = Rule("n0.next", "next", to="n1", foreach=items("n0"))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(over,), join="n2"),
        "n1": Node("n1", wait=made.graph.nodes["n1"].wait, rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", fan_in=FanIn(), rules=(Rule("n2.next", "next", to=END),)),
    }
    wait = nodes["n1"].wait
    names = (part_schedules.NAME,) if wait is not None and wait.kind == "document" else part_schedules.TOPICS
    sent = tuple((rng.choice(names), f"e{number}", rng.choice((0, 0, 1, 1, 1, 9))) for number in range(7))
    graph = replace(made.graph, nodes=nodes)
    return replace(made, graph=graph, events=sent, input={"key": "k", "n0": [1] * WIDTH}, calls=made.calls[-1:])


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held, or nothing failed; else which law did not hold."""
    world = World(seed, program_of(seed), tell)
    make_snags(world)
    try:
        post_clients(world)
        schedule._play(world)
        old = logs_of(world, RUN)
        end = fold(old.get(ROOT, []), Token()).end
        if end is None or end.status not in part_schedules._OVER or "0/0.0" not in old:
            return None
        part_schedules._redrive(world)
        schedule._play(world)
    except BrokenLawError as broken:
        return str(broken)
    finally:
        for actor in world.actors:
            actor.coroutine.close()
    return next(broken_laws(world, old), None)


def broken_laws(world: World, old: dict[str, list[Record]]) -> Iterator[str]:
    """What is wrong with what the branches of the new run were sent."""
    run_id = redriven_id(RUN)
    logs = logs_of(world, run_id)
    if fold(log_of(world, run_id), Token()).end is None:
        yield "the new run has come to no end"
    due = {index: due_of(world, old.get(f"0/0.{index}", [])) for index in range(WIDTH)}
    took = {index: part_schedules._taken(logs.get(f"0/2.{index}", [])) for index in range(WIDTH)}
    for index, parts in due.items():
        log, ids = logs.get(f"0/2.{index}", []), [one.event_id for one in took[index]]
        for one in parts:
            topic = run_topic(one.name, run_id) if one.seen else branch_topic(one.name, run_id, f"0/2.{index}")
            is_filled = not one.part and one.arm in {each.arm for each in took[index]}
            is_there = one.event_id in world.memory._pending.get(topic, {}) and (is_filled or _is_cut_off(log))
            if one.event_id not in ids and not is_there:
                yield f"branch {index} had {one.event_id}, and does not get it"
            if not one.seen and any(
                one.event_id in {each.event_id for each in took[other]} for other in due if other != index
            ):
                yield f"branch {index} had {one.event_id}, and another one gets it"
        for arm in {one.arm for one in parts}:
            asked = [one.event_id for one in parts if one.arm == arm]
            if (came := [one for one in ids if one in asked]) != [one for one in asked if one in came]:
                yield f"branch {index} gets {came}, and the order was {asked}"


def _is_cut_off(log: list[Record]) -> bool:
    """Tells whether the branch was ended before its wait was: by the failure of the other one, or as that completed."""
    token = fold(log, Token("0/2.0"))
    over = [one.resumption for one in log if one.kind is Kind.RESUMED and one.resumption]
    is_complete = bool(over) and over[-1].kind not in {"timeout", "timer"}
    return is_complete or (token.end is not None and token.end.status is Status.CANCELLED)


def due_of(world: World, log: list[Record]) -> list[Resumption]:
    """What the branch had of its own, if it goes on: of each document the last."""
    end = fold(log, Token("0/0.0")).end
    if not log or end is None or end.status is Status.COMPLETED:
        return []
    return part_schedules._due(world, log)[0]

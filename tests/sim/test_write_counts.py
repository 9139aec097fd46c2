"""Law of writes: where nothing races, how much a run writes is a function of its program, not of who works when.

Chains of steps and joins of all branches are such programs. Elsewhere the order decides what happens, and so what is
written: which of two events ends a wait, which branches a join of some still finds, whether a time-out is first. Each
of the branches that arrive at once may write its arrival, and wake another, once more. A death repeats at most what its
message had written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest

from tests.sim import count_mutants, ports, schedule
from tests.sim.clients import post_clients
from tests.sim.schedule import HELD_FROM, RESULTED_FROM, program_of
from tests.sim.snags import Snag, make_snags
from tests.sim.world import World

SEEDS = 8
WRITES = frozenset({
    "append", "arrive", "change_status", "consume", "create_run", "drop_note", "forget_waiter", "hold", "mark",
    "put_definition", "put_event", "put_note", "put_waiter", "report", "rest", "send", "set", "unmark",
})  # fmt: skip
"""All but snapshots, which a run saves when the processes of its schedule like to."""


def writes(seed: int, order: int, snags: tuple[Snag, ...] = ()) -> tuple[Counter[str], int, int]:
    """The writes of a schedule without copies, the most by one message, and how often somebody died."""
    made: Counter[str] = Counter()
    by_actor: Counter[str] = Counter()

    def watch(world: World, call: str) -> None:
        if call in WRITES:
            made[call] += 1
            by_actor[world.current.name if world.current else ""] += 1

    def post(world: World) -> None:
        post_clients(world)
        world.rng = random.Random(f"order {order}")

    program = replace(program_of(seed), snags=snags)
    with (
        schedule._limits(program),
        mock.patch.object(ports, "watch_call", watch),
        mock.patch.object(schedule, "post_clients", post),
    ):
        world = World(seed, program)
        if snags:
            make_snags(world)
        chances = world.chances
        chances.crash = chances.error = chances.double = chances.early = chances.tempt = 0
        chances.skew_ms, chances.hands_over = 0, False
        assert schedule._run(world) is None
    return made, max(by_actor.values()), world.seen.crashes


def broken_chain(seed: int) -> object:
    """A message, the run, two changes of its header, and a record for each step."""
    steps = len(program_of(seed).graph.nodes)
    once = {"create_run": 1, "put_definition": 1, "send": 1, "change_status": 2}
    found = [dict(writes(seed, order)[0]) for order in range(3)]
    return found if found != [{**once, "append": steps}] * 3 else None


def broken_fork(seed: int) -> object:
    """Two records for each branch; one for the fork, the join, the step behind it, and the end of the fork's node."""
    width = len(program_of(seed).input["n0"])
    once = {"create_run": 1, "put_definition": 1, "change_status": 2, "append": 2 * width + 4}
    found = [writes(seed, order)[0] for order in range(3)]
    least = found[0] & found[1] & found[2]
    is_wrong = {kind: least[kind] for kind in once} != once or least["arrive"] < width
    return found if is_wrong or any(one - least - at_once(width) for one in found) else None


def at_once(width: int) -> Counter[str]:
    """What branches that arrive at once write once more: arrivals, and wakes of the parent or the next one."""
    return Counter(send=width - 1, arrive=width - 1)


def broken_snag(seed: int) -> object:
    """What is more than undisturbed is explained by deaths, and by branches that arrive at once."""
    program, (calm, most, _) = program_of(seed), writes(seed, 0)
    calm += at_once(len(program.input["n0"]))
    held, _, _ = writes(seed, 1, tuple(replace(one, dies="") for one in program.snags))
    found, _, deaths = writes(seed, 2, program.snags)
    is_wrong = held - calm or (found - calm).total() > deaths * most
    return (calm, held, found, deaths) if is_wrong else None


LAWS = ((broken_chain, HELD_FROM), (broken_fork, RESULTED_FROM), (broken_snag, RESULTED_FROM))


@pytest.mark.parametrize(("law", "first"), LAWS)
def test_a_run_writes_as_much_as_its_program_asks_for(law: Callable[[int], object], first: int) -> None:
    assert [(seed, why) for seed in range(first, first + SEEDS) if (why := law(seed))] == []


@pytest.mark.parametrize(("law", "first"), LAWS[:2])
def test_an_engine_that_writes_more_is_caught(law: Callable[[int], object], first: int) -> None:
    with count_mutants.shown_again():
        assert law(first) is not None

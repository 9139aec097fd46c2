"""The law of tasks: a run is what plain asyncio makes of the same ends, in the same order.

The program runs on asyncio's own loop and tasks. Its operations end when the log says so; what it asks for, cancels and
returns must then be what the log holds. asyncio leaves the order of its sets of tasks open, so any order will do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, Goto, Record
from stepwell.engine.token import Token
from tests.sim.asked_laws import laws_of_callers
from tests.sim.fn_programs import has_tasks
from tests.sim.fn_shapes import OddLogError, check, from_json
from tests.sim.fn_values import digest
from tests.sim.task_plain import Cut, PlainContext, PlainLoop
from tests.sim.tree import in_full
from tests.sim.world import World

ORDERS = 16  # of sets of tasks, tried in turn


def laws_of_tasks(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run of a durable function with tasks."""
    if not has_tasks(world.program) or not logs.get(ROOT):
        return
    shown: dict[int, Any] = {}
    logs = in_full(logs)
    found = []
    for number in range(ORDERS):
        shown.clear()
        try:
            _run(world, logs, shown, random.Random(number))
        except OddLogError as odd:
            found.append(odd)
        else:
            break
    else:
        yield f"tasks: {world.run_id} {found[0]}"
    yield from laws_of_callers(world, logs[ROOT], shown)


def _run(world: World, logs: dict[str, list[Record]], shown: dict[int, Any], order: random.Random) -> None:
    """`shown` gets what a query is answered, by slot. `order`: of sets of tasks."""
    header, log = world.memory._runs[world.run_id], logs[ROOT]
    given, slot = from_json(header.input), -1
    now_ms, state = max(header.created_ms, header.start_at_ms), dict[str, Any]()
    while True:
        program = given.get("program", given)
        chance = random.Random(f"{world.run_id} {ROOT} {slot}")
        loop = PlainLoop(logs, log[slot + 1 :], now_ms, PlainContext(state, chance), order)
        try:
            value = loop.play(program)
        except Cut:
            return
        finally:
            shown.update(loop.shown)
        last = loop.returned()
        shown.update(loop.shown)
        if last is None:
            return
        if isinstance(value, BaseException):
            kind = getattr(value, "type", type(value).__name__)
            check(last, "it fails with", last.error and last.error.type, kind)
            return
        if not program.get("again"):
            check(last, "it returns", last.output, value)
            check(last, "its state is", dict(fold(log, Token()).scope), state)
            return
        given = {"program": {**program, "again": program["again"] - 1, "carry": digest(value)}}
        check(last, "it begins anew with", (last.output, type(last.next)), (given, Goto))
        slot, now_ms = last.slot, last.at_ms

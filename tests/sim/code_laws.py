"""Law 12: code that cannot be loaded fails no run, a deploy ends every wait for it at once, and no other code waits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.engine.records import Kind, Record
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import CODE
from tests.sim.fn_code import CANNOT_IMPORT
from tests.sim.noting import records_of
from tests.sim.programs import Program

if TYPE_CHECKING:
    from tests.sim.world import World


def with_bad_deploys(program: Program, rng: random.Random) -> Program:
    """Now and then the code of the steps breaks for a while, from the start or in the midst of a run."""
    if rng.random() > 0.1:
        return program
    broken = rng.choice([0, rng.randint(0, 60), rng.randint(0, 300)])
    return replace(program, deploys=(("break", broken), ("mend", broken + rng.randint(1, 300))))


def laws_of_code(world: World, logs: Mapping[str, list[Record]]) -> Iterator[str]:
    """No record tells of bad code but the wait for other code."""
    for token, log in logs.items():
        for record in log:
            if record.error is not None and record.error.type == CANNOT_IMPORT.type:
                yield f"law 12: {token} slot {record.slot}: bad code failed an attempt of {record.node}"


def watch_code(world: World, args: tuple[Any, ...]) -> None:
    """Notes an append by which a token waits for other code, although nobody deploys any, or deletes its log."""
    if '"code"' not in args[3] or args[0] in world.erasing or world.main.deploys or world.main.breaks or world.deploy:
        return
    for token, record in records_of(args, world.blobs):
        if record.kind is Kind.WAITING and record.parked is not None and record.parked.kind == CODE:
            why = f"{token} slot {record.slot} waits for code that nobody changed: {record.parked.data}"
            world.wrong.append(f"law 12: {why}")


def laws_of_quiet_code(world: World, tokens: Mapping[str, Token], under_way: set[str]) -> Iterator[str]:
    """Who began to wait before the last deploy has tried again, unless that deploy is still to be told."""
    if world.processes.code.is_broken or any(name.startswith("deployed:") for name in under_way):
        return
    for token in tokens.values():
        parked = token.parked
        if token.ended or parked is None or parked.kind != CODE or token.resumption is not None:
            continue
        if token.phase is Phase.COMPENSATING:
            continue  # it waits no more: it was ended, and its worker is to come
        if world.seen.order.get((token.id, token.waiting_slot), 0) < world.mended_at:
            yield f"law 12: {token.id} waits for code since before the deploy that mended it"

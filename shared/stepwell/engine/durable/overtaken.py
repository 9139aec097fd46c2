"""Effects of records of a function's tasks that others have overtaken, by writing the next ones before them."""

from __future__ import annotations

from collections.abc import Collection

from stepwell.engine.decide import due_ms
from stepwell.engine.effect_kinds import Effect, SetTimer
from stepwell.engine.effects import closing, opening, status_of_tasks
from stepwell.engine.pushing import is_for
from stepwell.engine.token import Token


def overtaken(token: Token, by: Collection[str], sent_for: int = -1) -> tuple[Effect, ...]:
    """Returns the effects of records that these actors wrote for the function's tasks, before others wrote the next.

    `sent_for`: the slot of a record that the actor was to push on, whoever wrote it.

    A     WAITING (begins a, b) ── dies
    B                               RECEIVED (c ended) ── …
    A, again                                                lets a and b begin: nobody else does
    """
    found: list[Effect] = []
    is_mine = False
    for slot, begun in token.tasks.items():
        if not begun.by or slot == token.slot or not is_for(begun.by, slot, by, sent_for):
            continue
        is_mine = True
        if begun.open:
            found.append(opening(slot, begun))
        found += closing(begun.cancelled)
    if not is_mine or token.parked is None or not token.parked.of_tasks or token.last is None:
        return tuple(found)
    timer = () if (at_ms := due_ms(token)) is None else (SetTimer(token.slot, at_ms),)
    return (*found, *timer, status_of_tasks(token, token.last))

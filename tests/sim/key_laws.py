"""The law of idempotency keys: each visit has one, whoever dies and whatever the token waits for beside its work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stepwell.engine.records import Kind, Record
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.code import is_for_code

if TYPE_CHECKING:
    from tests.sim.world import World


def laws_of_keys(world: World, logs: Mapping[str, list[Record]]) -> Iterator[str]:
    """No step was run under a key of a slot in which none could begin.

    What a batch had not written may have been further than its log is.
    """
    graph = world.program.graph
    for key, _ in world.seen.given:
        run_id, token, slot = key.split(":", 2) if key.count(":") == 2 else ("", "", "")
        if run_id != world.run_id or not slot.isdecimal():
            continue
        places = key_slots(logs.get(token, ()), of_function=graph.replays, is_batched=graph.is_batched)
        if int(slot) not in places and not (graph.is_batched and int(slot) > places[-1]):
            yield f"keys: a step of {token} was run under {key}, and its visits are of {places}"


def key_slots(log: Sequence[Record], *, of_function: bool, is_batched: bool = False) -> list[int]:
    """Returns the slots that key what each record begins, where it begins something, and what would come next.

    Those of waits beside the work are left out: of a graph, whose node was entered before, all of them; of a function,
    whose operation begins with its own record, those from the first wait for code on. In a batch none counts.
    """
    found, first, beside, shift = list[int](), -1, False, 0
    for record in log:
        if is_aside(record):
            beside = True
            if first < 0 and (is_for_code(record) or not of_function):
                first = record.slot - shift
            shift += 2 * (is_batched and is_for_code(record))
        elif not beside or record.kind not in {Kind.RECEIVED, Kind.RESUMED}:
            found.append(first if first >= 0 else record.slot - shift)
            first, beside = -1, False
    return [*found, first if first >= 0 else len(log) - shift]


def key_slot(log: Sequence[Record], slot: int) -> int:
    """Returns the slot that keys the operation of a function that begins with the record of this slot."""
    return key_slots(log[: slot + 1], of_function=True)[-2]

"""A run as one record of its log left it, and what that record changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from pydantic import Field
from typing_extensions import TypedDict

from stepwell.api.graphs import node_states
from stepwell.api.large import shortened
from stepwell.api.requests import Query
from stepwell.api.runs.ran import steps_of, taken_edges
from stepwell.api.runs.states import current_steps, phase_of, status_of
from stepwell.api.runs.steps import StepResult, time_of
from stepwell.definition.graph import Json
from stepwell.definition.text import pointer_part
from stepwell.engine.names import shown_state
from stepwell.engine.records import Status
from stepwell.limits import RUN_STEPS
from stepwell.runtime.log.standing import Standing

CHANGES = 200  # of one record that are listed
VALUE_BYTES = 5_000  # a larger value of a change stands as its size
DEPTH = 6  # levels into which a value is compared; below, it changed as a whole


class StateQueryString(Query):
    at: int | None = Field(
        None,
        ge=0,
        le=RUN_STEPS,
        description="the slot of a record; default: the last one, and what branches did since",
    )


class Change(TypedDict):
    """A value that a record changed, in the words of JSON Patch. `path`: a JSON Pointer into `state`, `steps`, …"""

    op: str
    path: str
    before: Json
    value: Json


class StateView(TypedDict):
    """A run's own token after the record of `slot`, of 0 to `last_slot`; without the steps of branches.

    `status`, `phase`, `current_steps` and `states` are those that the record left; without `at`, those of now.
    """

    run_id: str
    slot: int
    last_slot: int
    at: str | None
    status: str
    phase: str
    current_steps: list[str]
    state: dict[str, Json]
    steps: dict[str, StepResult]
    states: dict[str, str]
    taken: dict[str, int]
    changes: list[Change]


def state_view(before: Standing, after: Standing, last_slot: int) -> StateView:
    """Builds the view of a run after a record; `before` is the same run before it."""
    steps, last = steps_of(after, ()), after.token.last
    changes = _changes(_compared(before), _compared(after), "", DEPTH) if before.token.slot < after.token.slot else ()
    return StateView(
        run_id=after.run_id,
        slot=after.token.slot,
        last_slot=last_slot,
        at=time_of(last.at_ms if last else after.header.created_ms),
        status=status_of(after).value,
        phase=phase_of(after),
        current_steps=current_steps(after),
        state=shown_state(after.token),
        steps=steps,
        states=node_states(after, steps),
        taken=taken_edges(after, ()),
        changes=[_short(after, change) for change in islice(changes, CHANGES)],
    )


def _short(after: Standing, change: Change) -> Change:
    path, slot = change["path"], after.token.slot
    value = shortened(after.run_id, change["value"], VALUE_BYTES, path, at=slot)
    before = shortened(after.run_id, change["before"], VALUE_BYTES, path, at=max(slot - 1, 0))
    return Change(op=change["op"], path=path, before=before, value=value)


def _compared(at: Standing) -> Mapping[str, Json]:
    steps = {
        name: {"status": step["status"], "attempts": step["attempts"], "output": step["output"], "error": step["error"]}
        for name, step in steps_of(at, ()).items()
    }
    status = status_of(at)
    result = at.token.result if status is Status.COMPLETED else None
    return {"status": status.value, "steps": steps, "state": shown_state(at.token), "result": result}


def _changes(before: Json, after: Json, path: str, depth: int) -> Iterator[Change]:
    """Yields what differs, in the order of the later value; what is gone comes last."""
    if before == after:
        return
    if not depth or not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield Change(op="replace", path=path, before=before, value=after)
        return
    for name, value in after.items():
        if name in before:
            yield from _changes(before[name], value, _below(path, name), depth - 1)
        else:
            yield Change(op="add", path=_below(path, name), before=None, value=value)
    for name, value in before.items():
        if name not in after:
            yield Change(op="remove", path=_below(path, name), before=value, value=None)


def _below(path: str, name: str) -> str:
    return f"{path}/{pointer_part(name)}"

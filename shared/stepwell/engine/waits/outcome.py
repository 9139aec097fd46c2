"""Outcomes: the end of a wait as its node's result, as the names that it sets, or as a failure."""

from __future__ import annotations

from stepwell.definition.graph import Json, Wait
from stepwell.engine.parts import parts_of
from stepwell.engine.records import ALONE, Arm, Failure, Parked, Pause, Resumption
from stepwell.engine.waits.kind import coming_of, kind_named


def result_of(wait: Wait | None, parked: Parked, resumption: Resumption, received: tuple[Resumption, ...]) -> Json:
    """The node's result: what came, or for a step's own wait what its directive carried joined with it."""
    if parked.asked_by_step is not None:
        return joined(parked.asked_by_step, resumption)
    if wait is None or not wait.arms:
        return arm_value(parked, resumption.arm, resumption, received)
    if parked.is_all:
        return {arm.name: arm_value(parked, index, resumption, received) for index, arm in enumerate(parked.arms)}
    arm = wait.arms[resumption.arm]
    value = arm_value(parked, resumption.arm, resumption, received)
    return {"index": resumption.arm, "for": arm.kind, "name": arm.event or arm.kind, "result": value}


def writes_of(
    node: str, parked: Parked, resumption: Resumption, received: tuple[Resumption, ...], result: Json
) -> dict[str, Json]:
    """The names a wait sets, by default: its result under the node's name, and the names of its kind."""
    ended = [resumption.arm] if not parked.is_all else range(len(parked.arms))
    is_timed = len(parked.arms) == 1 and kind_named(parked.arms[0].kind).is_timed
    writes: dict[str, Json] = {} if is_timed else {node: result}
    for index in ended:
        value = arm_value(parked, index, resumption, received)
        for name, keys in kind_named(parked.arms[index].kind).sets.items():
            writes[name] = next((value[key] for key in keys if isinstance(value, dict) and key in value),
                                None if keys else value)  # fmt: skip
    return writes


def arm_value(parked: Parked, index: int, resumption: Resumption, received: tuple[Resumption, ...]) -> Json:
    """Returns the value of one of the wait's arms."""
    if coming_of(resumption).is_value:
        return resumption.payload
    arm = parked.arms[index]
    return kind_named(arm.kind).value(arm, parts_of(index, (*received, resumption)))


def joined(pause: Pause, resumption: Resumption) -> Json:
    """Merges the directive's data with the wait's value, which wins if both have a key."""
    kind = kind_named(pause.kind)
    if kind.is_timed:
        return pause.result
    if pause.then == ALONE:
        return kind.value(Arm(pause.kind), (resumption,))
    extra = kind.brought(resumption)
    if pause.result is None:
        return extra
    carried = pause.result if isinstance(pause.result, dict) else {"result": pause.result}
    return {**carried, **extra}


def failure_of(parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
    """Returns a time-out or a rejection as an error; None if the wait succeeded."""
    return kind_named(parked.arms[resumption.arm].kind).failure(parked, resumption, node, waited)

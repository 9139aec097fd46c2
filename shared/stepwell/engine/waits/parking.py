"""Parking: the wait of a node or a step with its templates filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

from stepwell.definition.compiled import Expression
from stepwell.definition.durations import parse_wait
from stepwell.definition.graph import Call, Json, Wait
from stepwell.engine import children
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import Arm, Parked, Pause
from stepwell.engine.token import Token
from stepwell.engine.waits import several
from stepwell.engine.waits.kind import Place, kind_named
from stepwell.engine.waits.templates import texts
from stepwell.errors import ExpressionError, UserError


def park(moment: Moment, token: Token, wait: Wait, callbacks: Sequence[str] = ()) -> Parked:
    """Returns a definition's wait, with its templates filled in. Raises ExpressionError.

    `callbacks`: the ids of its callbacks, whose URLs were given out before.
    """
    names = Names(moment, token)
    arms = wait.arms or (wait,)
    limits = [_limit_ms(arm.kind, arm.timeout, arm.timeout_ms, names, moment.now_ms) for arm in arms]
    whole_ms = _limit_ms(wait.kind, wait.timeout, wait.timeout_ms, names, moment.now_ms) if wait.arms else None
    first_ms, first = min(((ms, i) for i, ms in enumerate(limits) if ms is not None), default=(None, None))
    if first_ms is None or (whole_ms is not None and whole_ms < first_ms):
        first_ms, first = whole_ms, None
    own = f"{moment.run.run_id}|{token.id}|w{token.next_slot}"
    place = Place(names, moment.run.run_id, iter(callbacks) if callbacks else repeat(own))
    escalate = next((arm.approvers for arm in arms if arm.approvers and arm.approvers.escalate_after_ms), None)
    return Parked(
        kind=several.parked_as(arms) if wait.arms else wait.kind,
        arms=_named([_arm(arm, place, is_alone=not wait.arms) for arm in arms], arms),
        until_ms=None if first_ms is None else moment.now_ms + first_ms,
        timer_arm=first if first is not None and kind_named(arms[first].kind).is_timed else None,
        is_all=kind_named(wait.kind).is_all,
        data=wait.data.evaluate(names) if wait.data else _data_of_arms(wait, names),
        since_ms=moment.now_ms,
        heartbeat_ms=next((arm.heartbeat_ms for arm in arms if arm.heartbeat_ms is not None), None),
        escalate_ms=moment.now_ms + (escalate.escalate_after_ms or 0) if escalate else None,
        escalate_to=texts(escalate.escalate_to, names, "escalate.to") if escalate else (),
    )


def _arm(wait: Wait, place: Place, *, is_alone: bool) -> Arm:
    """Returns what the wait registers, with its heartbeat if there are others beside it."""
    arm = kind_named(wait.kind).arm(wait, place)
    return arm if is_alone or wait.heartbeat_ms is None else replace(arm, heartbeat_ms=wait.heartbeat_ms)


def park_for_children(moment: Moment, token: Token, call: Call) -> Parked:
    """Returns a wait for child runs. Raises ExpressionError if their inputs cannot be evaluated."""
    limit_ms = _limit_ms(call.kind, call.timeout, call.timeout_ms, Names(moment, token), moment.now_ms)
    return Parked(
        kind=call.kind,
        arms=(Arm(call.kind),),
        until_ms=None if limit_ms is None else moment.now_ms + limit_ms,
        since_ms=moment.now_ms,
        children=children.called(moment, token, call),
    )


def park_for_step(moment: Moment, token: Token, pause: Pause) -> Parked:
    """Returns the wait that a step asked for."""
    return kind_named(pause.kind).park_for_step(moment, token, pause)


def _named(arms: Sequence[Arm], waits: Sequence[Wait]) -> tuple[Arm, ...]:
    """Each with the name of its result, numbered where it repeats. One alone needs none."""
    if len(arms) == 1:
        return tuple(arms)
    names = _numbered([kind_named(wait.kind).title(wait) for wait in waits])
    return tuple(replace(arm, name=name) for arm, name in zip(arms, names, strict=True))


def _numbered(names: Sequence[str]) -> list[str]:
    numbers = [names[:at].count(name) + 1 for at, name in enumerate(names)]
    return [name if number == 1 else f"{name}_{number}" for name, number in zip(names, numbers, strict=True)]


def _limit_ms(kind: str, timeout: Expression | None, timeout_ms: int | None, names: Names, now_ms: int) -> int | None:
    """`timeout`: a template, which wins over the milliseconds written. It gives a duration, or a time to wait until."""
    if timeout is None:
        return timeout_ms
    try:
        limit_ms = parse_wait(timeout.evaluate(names), now_ms)
    except UserError as error:
        raise ExpressionError(f"`{timeout.text}`: {error.message}", hint=error.hint) from error
    most_ms = kind_named(kind).longest_ms
    if limit_ms > most_ms:
        most = f"{kind} waits at most {most_ms // 1000} s"
        raise ExpressionError(f"`{timeout.text}` gave {limit_ms // 1000} s; {most}")
    return limit_ms


def _data_of_arms(wait: Wait, names: Names) -> Json:
    titles = _numbered([arm.event or arm.kind for arm in wait.arms])
    found = {title: arm.data.evaluate(names) for title, arm in zip(titles, wait.arms, strict=True) if arm.data}
    return found or None

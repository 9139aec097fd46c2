"""Permit requests: the record that parks a throttled step's token, and the failure of a step that gets none."""

from __future__ import annotations

from typing import Any

from stepwell.definition.graph import Throttle
from stepwell.engine.actions import RunStep
from stepwell.engine.limits.permits import key_of
from stepwell.engine.limits.throttles import PERMITTED, REFUSED, leaves_line
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import Arm, Failure, Kind, Parked, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import LIMIT


def needed(moment: Moment, token: Token, action: RunStep) -> Throttle | None:
    """Returns what throttles the step, unless its token has the permit. A compensation needs that of its step."""
    if token.permit is not None and token.permit.state == PERMITTED:
        return None
    node = moment.graph.nodes.get(action.node) if action.undo is not None else None
    own = node.step if node is not None else None
    return action.step.throttle or (own.throttle if own is not None else None)


def _since_ms(moment: Moment, token: Token) -> int:
    """Returns since when the step is in line. One that left it for a pause takes its place again."""
    is_back = token.parked is not None and token.last is not None and leaves_line(token.last)
    return token.parked.since_ms if token.parked is not None and is_back else moment.now_ms


def refused(token: Token, node: str) -> Failure | None:
    """Returns why the step gets no permit; None while it may get one."""
    if token.permit is None or token.permit.state != REFUSED:
        return None
    message = f"there is no limit {token.permit.limit!r} in the limits.yaml that is deployed"
    return Failure("unknown_limit", "validation", message, node)


def permit_record(moment: Moment, token: Token, action: RunStep, throttle: Throttle) -> Record:
    """Returns the record that parks the token until it has its permit. Raises ExpressionError for an invalid key."""
    data: dict[str, Any] = {"limit": throttle.limit, "step": action.node}
    if throttle.key is not None:
        seen = token if action.undo is None else action.undo.seen
        data["key"] = key_of(throttle.key, Names(moment, seen), "throttle")
    parked = Parked(LIMIT, (Arm(LIMIT),), data=data, since_ms=_since_ms(moment, token))
    node = moment.graph.start if moment.turn else action.node
    return Record(token.next_slot, Kind.WAITING, moment.by, moment.ms_after(token), node, parked=parked)

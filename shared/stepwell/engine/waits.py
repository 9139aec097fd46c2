"""Waits: how a token is parked, and what it makes of what ended the wait."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Call, Expression, Json, Wait
from stepwell.definition.wait_schemas import SCHEMAS, SEVERAL
from stepwell.engine import children
from stepwell.engine.names import Moment, Names, default_input
from stepwell.engine.parts import value_of, votes_and_parts
from stepwell.engine.records import Arm, Called, Failure, Parked, Pause, Resumption, Topic
from stepwell.engine.token import Token
from stepwell.errors import ExpressionError, UserError
from stepwell.limits import KEY_CHARACTERS, YEAR_MS

TIMED = frozenset({"sleep", "delay"})  # waits that their timer completes
CALLBACK_EVENT = "CALLBACK_COMPLETED"
_BY_EVENT = frozenset({"event", "response", "document", "signature", "test"})
_EVENT_NAMES = {"response": "MESSAGE_RECEIVED"}
_SETS: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # names a wait sets beside its own: where each is in the payload
    "response": {"lastResponse": ()},
    "document": {"documentUrls": ()},
    "signature": {"signedDocumentUrl": ("signedDocumentUrl", "url"), "signedAt": ("signedAt", "signed_at")},
    "test": {"testScore": ("testScore", "score"), "testResult": ("testResult", "result")},
}


def event_topic(name: str, key: str) -> Topic:
    """Where an event for whoever waits for name and key meets its waits."""
    return Topic(name, f"={key}" if key else "")


def run_topic(name: str, run_id: str) -> Topic:
    """Where an event for one run alone meets that run's waits."""
    return Topic(name, f"@{run_id}")


def callback_topic(callback: str) -> Topic:
    """Where a callback meets its wait: each has a topic of its own."""
    return Topic(CALLBACK_EVENT, f"!{callback}")


def run_of(topic: Topic) -> str | None:
    """The run that alone can wait under this topic; None for a topic that is open to all."""
    return topic.key[1:] if topic.key.startswith("@") else None


def park(moment: Moment, token: Token, wait: Wait) -> Parked:
    """A definition's wait with its templates filled in. Raises ExpressionError for one that cannot be."""
    names = Names(moment, token)
    arms = wait.arms or (wait,)
    limits = [_limit_ms(arm.kind, arm.timeout, arm.timeout_ms, names) for arm in arms]
    whole_ms = _limit_ms(wait.kind, wait.timeout, wait.timeout_ms, names) if wait.arms else None
    first_ms, first = min(((ms, i) for i, ms in enumerate(limits) if ms is not None), default=(None, None))
    if first_ms is None or (whole_ms is not None and whole_ms < first_ms):
        first_ms, first = whole_ms, None
    callback = f"{moment.run.run_id}|{token.id}|w{token.next_slot}"
    escalate = next((arm.approvers for arm in arms if arm.approvers and arm.approvers.escalate_after_ms), None)
    return Parked(
        kind=_phase_kind(arms) if wait.arms else wait.kind,
        arms=_named([_arm(arm, names, moment.run.run_id, callback) for arm in arms], arms),
        until_ms=None if first_ms is None else moment.now_ms + first_ms,
        timer_arm=first if first is not None and arms[first].kind in TIMED else None,
        is_all=wait.kind == "all",
        data=wait.data.evaluate(names) if wait.data else _data_of_arms(wait, names),
        since_ms=moment.now_ms,
        heartbeat_ms=wait.heartbeat_ms,
        escalate_ms=moment.now_ms + (escalate.escalate_after_ms or 0) if escalate else None,
        escalate_to=_texts(escalate.escalate_to, names, "escalate.to") if escalate else (),
    )


def park_for_children(moment: Moment, token: Token, call: Call) -> Parked:
    """A wait for child runs. Raises ExpressionError where their inputs cannot be filled in."""
    limit_ms = _limit_ms(call.kind, call.timeout, call.timeout_ms, Names(moment, token))
    return Parked(
        kind=call.kind,
        arms=(Arm(call.kind),),
        until_ms=None if limit_ms is None else moment.now_ms + limit_ms,
        since_ms=moment.now_ms,
        children=children.called(moment, token, call),
    )


def park_for_step(moment: Moment, token: Token, pause: Pause) -> Parked:
    """The wait that a step asked for."""
    if pause.kind == "children":
        given = default_input(moment.run, token)
        asked = tuple(
            Called(one["name"], one["workflow"], given if one["input"] is None else one["input"]) for one in pause.data
        )
        pause = replace(pause, data=None)  # it is kept once
    else:
        asked = ()
    topics = _topics(pause.name, pause.key, moment.run.run_id) if pause.kind == "event" else ()
    if pause.kind == "callback":  # the step made its URL from its idempotency key
        topics = (callback_topic(f"{moment.run.run_id}|{token.id}|s{token.entered_slot}"),)
    return Parked(
        kind=pause.kind,
        arms=(Arm(pause.kind, topics),),
        until_ms=None if pause.timeout_ms is None else moment.now_ms + pause.timeout_ms,
        timer_arm=0 if pause.kind in TIMED else None,
        data=pause.data,
        since_ms=moment.now_ms,
        asked_by_step=pause,
        children=asked,
    )


def result_of(wait: Wait | None, parked: Parked, came: Resumption, received: tuple[Resumption, ...]) -> Json:
    """The node's result: what came, or for a step's own wait what its directive carried joined with it."""
    if parked.asked_by_step is not None:
        return joined(parked.asked_by_step, came)
    if wait is None or not wait.arms:
        return arm_value(parked, came.arm, came, received)
    if parked.is_all:
        return {arm.name: arm_value(parked, index, came, received) for index, arm in enumerate(parked.arms)}
    arm = wait.arms[came.arm]
    value = arm_value(parked, came.arm, came, received)
    return {"index": came.arm, "for": arm.kind, "name": arm.event or arm.kind, "result": value}


def writes_of(
    node: str, parked: Parked, came: Resumption, received: tuple[Resumption, ...], result: Json
) -> dict[str, Json]:
    """The names a wait sets, by default: its result under the node's name, and the row's own names for it."""
    ended = [came.arm] if not parked.is_all else range(len(parked.arms))
    is_timed = len(parked.arms) == 1 and parked.arms[0].kind in TIMED
    writes: dict[str, Json] = {} if is_timed else {node: result}
    for index in ended:
        value = arm_value(parked, index, came, received)
        kind = parked.arms[index].kind
        if kind == "approval":
            writes["approval"] = value
        for name, keys in _SETS.get(kind, {}).items():
            writes[name] = next((value[key] for key in keys if isinstance(value, dict) and key in value),
                                None if keys else value)  # fmt: skip
    return writes


def arm_value(parked: Parked, index: int, came: Resumption, received: tuple[Resumption, ...]) -> Json:
    """What came for one of the wait's arms."""
    if came.kind in {"timer", "timeout", "children"}:
        return came.payload
    return value_of(parked.arms[index], votes_and_parts(received, came, index))


def joined(pause: Pause, came: Resumption) -> Json:
    """What the directive carried joined with what came; what came wins where both name a key."""
    extra: dict[str, Json]
    match came.kind, came.payload:
        case ("timer", _):
            return pause.result
        case ("event", payload) if pause.kind == "callback":
            extra = payload["body"] if isinstance(payload["body"], dict) else {"callback": payload["body"]}
        case ("approved" | "rejected", _):
            extra = {"approval": _value(came)}
        case (_, dict() as payload):
            extra = payload
        case (_, payload):
            extra = {"event": payload}
    if pause.result is None:
        return extra
    carried = pause.result if isinstance(pause.result, dict) else {"result": pause.result}
    return {**carried, **extra}


def failure_of(parked: Parked, came: Resumption, node: str, waited: int) -> Failure | None:
    """A time-out or a rejection as an error; None when what was waited for has come."""
    if came.kind == "timeout" and came.name == "heartbeat":
        message = f"{node} had no heartbeat for {(parked.heartbeat_ms or 0) / 1000:g} s"
        return Failure("heartbeat_timeout", "timeout", message, step=node, attempts=waited + 1)
    if came.kind == "event" and came.payload and parked.arms[came.arm].kind == "callback" and "error" in came.payload:
        error = came.payload["error"]
        return Failure(error["type"], "external", error["message"], step=node, data=error.get("data"))
    if came.kind == "timeout":
        message = f"{node} waited for {parked.kind} until its time was up"
        return Failure(f"{parked.kind}_timeout", "timeout", message, step=node, attempts=waited + 1)
    if came.kind == "rejected":
        payload = came.payload if isinstance(came.payload, dict) else {}
        message = str(payload.get("reason") or "rejected") + (f" (by {came.by})" if came.by else "")
        return Failure("rejected", "step", message, step=node, attempts=1, data=_value(came))
    return children.failure_from(came, node)


def _value(came: Resumption) -> Json:
    if came.kind in {"approved", "rejected"}:
        return {"decision": came.kind, "by": came.by or None, **(came.payload or {})}
    return came.payload


def _arm(arm: Wait, names: Names, run_id: str, callback: str) -> Arm:
    if arm.kind == "callback":
        return Arm(arm.kind, (callback_topic(callback),))
    if arm.kind == "approval" and arm.approvers is not None:
        of = _texts(arm.approvers.of, names, "approvers.of")
        return Arm(arm.kind, parts=of, need=arm.approvers.need)
    if arm.kind not in _BY_EVENT:
        return Arm(arm.kind)
    name = arm.event or _EVENT_NAMES[arm.kind]
    key = "" if arm.key is None else _key(arm.key, names)
    documents = _texts(arm.documents, names, "documents")
    return Arm(arm.kind, _topics(name, key, run_id), _match(arm, names),
               parts=documents, need=max(len(documents), 1))  # fmt: skip


def _match(arm: Wait, names: Names) -> str:
    """The condition over the event, with whom it is to be from."""
    written = arm.match.text if arm.match else ""
    if arm.sender is None:
        return written
    sender = arm.sender.evaluate(names)
    if not isinstance(sender, str):
        raise ExpressionError(f"`{arm.sender.text}` gave {sender!r:.80}", hint="the name of the sender, as text")
    is_from = f"event.from == {json.dumps(sender, ensure_ascii=False)}"
    bare = written.strip().removeprefix("{{").removesuffix("}}")
    return f"({bare}) && {is_from}" if written else is_from


def _named(arms: Sequence[Arm], waits: Sequence[Wait]) -> tuple[Arm, ...]:
    """Each with the name of its result: its event's, else its kind, numbered where it repeats. One alone needs none."""
    if len(arms) == 1:
        return tuple(arms)
    plain = [wait.event if wait.kind == "event" and wait.event else wait.kind for wait in waits]
    numbers = [plain[:at].count(name) + 1 for at, name in enumerate(plain)]
    return tuple(
        replace(arm, name=name if number == 1 else f"{name}_{number}")
        for arm, name, number in zip(arms, plain, numbers, strict=True)
    )


def _texts(expression: Expression | None, names: Names, what: str) -> tuple[str, ...]:
    """A list of names. Raises ExpressionError for anything else."""
    if expression is None:
        return ()
    found = expression.evaluate(names)
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ExpressionError(f"`{what}` gave {found!r:.80}", hint="a list of names")
    return tuple(dict.fromkeys(found))


def _topics(name: str, key: str, run_id: str) -> tuple[Topic, ...]:
    return event_topic(name, key), run_topic(name, run_id)


def _key(key: Expression, names: Mapping[str, Json]) -> str:
    value = key.evaluate(names)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ExpressionError(f"the wait's key `{key.text}` gave {value!r}", hint="a key is a string or a whole number")
    text = str(value)
    if len(text) > KEY_CHARACTERS:
        raise ExpressionError(f"the wait's key has {len(text)} characters; at most {KEY_CHARACTERS} are kept")
    return text


def _limit_ms(kind: str, timeout: Expression | None, timeout_ms: int | None, names: Names) -> int | None:
    """`timeout`: a template, which wins over the milliseconds written."""
    if timeout is None:
        return timeout_ms
    try:
        limit_ms = parse_duration(timeout.evaluate(names))
    except UserError as error:
        raise ExpressionError(f"`{timeout.text}`: {error.message}", hint=error.hint) from error
    most_ms = YEAR_MS if kind in SEVERAL else SCHEMAS[kind].longest_ms
    if limit_ms > most_ms:
        most = f"{kind} waits at most {most_ms // 1000} s"
        raise ExpressionError(f"`{timeout.text}` gave {limit_ms // 1000} s; {most}")
    return limit_ms


def _phase_kind(arms: tuple[Wait, ...]) -> str:
    kinds = {arm.kind for arm in arms}
    if "approval" in kinds:
        return "approval"
    return "delay" if kinds <= TIMED else "event"


def _data_of_arms(wait: Wait, names: Names) -> Json:
    found = {arm.event or arm.kind: arm.data.evaluate(names) for arm in wait.arms if arm.data}
    return found or None

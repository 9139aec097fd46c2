"""The wait for code: a token steps aside while its code cannot be imported, found or compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepwell.engine.names import Moment, iso
from stepwell.engine.records import Arm, Failure, Kind, Parked, Record
from stepwell.engine.table import Signal
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import CODE, KEYED, SHIFTS, UNBEGUN, step_aside
from stepwell.engine.waits.kind import Began, Reason, WaitKind, Waker
from stepwell.engine.waits.topics import event_topic, run_topic
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS

DEPLOYED = "stepwell.deployed"  # the event that ends all waits for code; only Stepwell publishes it
DEPLOYED_TOPIC = event_topic(DEPLOYED, "")
_OWN_EVENT = "code.deployed"  # ends the wait of the run that it is sent to
_LOOKS_MS = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS)  # how soon the code is tried again by itself


class CodeWait(WaitKind):
    """A timer or an event ends it, and the token tries again."""

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """What the token stood at is kept."""
        aside = step_aside(token, record)
        entered = record.slot if KEYED in record.rules and aside.entered < 0 else aside.entered
        aside = replace(aside, looks=record.attempt + 1, entered=entered)
        return {"aside": aside, "parked": parked, "resumption": None, "received": (), "received_slot": -1, "fork": None,
                "shift": token.shift + 2 * (SHIFTS in record.rules)}  # fmt: skip

    def resumed(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """With other code deployed, the looks by itself begin anew."""
        resumption = record.resumption
        is_deploy = resumption is not None and resumption.name == DEPLOYED
        aside = replace(token.aside, looks=0) if token.aside and is_deploy else token.aside
        return {"resumption": resumption, "aside": aside}

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        until = None if parked.until_ms is None else iso(parked.until_ms)
        entry = "step.stuck" if "code" in parked.data else self.entry
        return Began(entry, {"until": until, "error": parked.data}, record.attempt + 1)

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason:
        error = parked.data if isinstance(parked.data, dict) else {}
        code = error.get("code")
        what = f"cannot load {code}" if code else "cannot continue with the deployed code"
        text = f"It {what}: {told(error)}."
        alone = f"`stepwell event {_OWN_EVENT} --run {run_id}` for this run only"
        event = f"a deploy, or a reload of the dev server; {alone}"
        wakers = (Waker("timer", "it retries by itself", parked.until_ms), Waker("event", event))
        return Reason(f"{text} Nothing is lost: fix the code and deploy it.", wakers)


def told(error: Mapping[str, Any]) -> str:
    """Returns why the code cannot be used, as text: with the line that raised it, if that is known."""
    message, place = error.get("message") or "", error.get("at")
    return f"{error.get('type')}: {message}{f' at {place}' if place and place not in message else ''}"


CODE_WAIT = CodeWait(CODE, Signal.STUCK, entry="function.stuck", thing="other code")


def wait_for_code(moment: Moment, token: Token, failure: Failure, node: str, *, is_unbegun: bool = False) -> Record:
    """Returns the record that parks a token until there is other code.

    `is_unbegun`: the step that the last record began did not run.
    """
    again = token.aside.looks if token.aside else 0
    until_ms = moment.now_ms + _LOOKS_MS[min(again, len(_LOOKS_MS) - 1)]
    own = failure.data if isinstance(failure.data, dict) else {}
    parked = Parked(
        CODE,
        (Arm("event", (run_topic(_OWN_EVENT, moment.run.run_id), DEPLOYED_TOPIC)),),
        until_ms,
        timer_arm=0,
        data={"type": failure.type, "message": failure.message, **own},
        since_ms=moment.now_ms,
    )
    at_ms = moment.ms_after(token)
    return Record(token.next_slot, Kind.WAITING, moment.by, at_ms, node, attempt=again, parked=parked,
                  rules=(*_rules_of_keys(moment), *((UNBEGUN,) if is_unbegun else ())))  # fmt: skip


def _rules_of_keys(moment: Moment) -> tuple[str, ...]:
    """Returns the rules by which steps that a worker ran before it died, with no record of them, keep their keys."""
    if moment.turn is not None:
        return (KEYED,)
    return (SHIFTS,) if moment.graph.is_batched else ()


def is_for_code(record: Record) -> bool:
    """Tells whether the record parks its token for code."""
    return record.parked is not None and record.parked.kind == CODE


def is_again(token: Token, parked: Parked) -> bool:
    """Tells whether the token waited for the same a moment ago: a deploy that is still kept ended that at once."""
    before = token.parked
    is_same = before is not None and before.kind == CODE and before.data == parked.data
    return before is not None and is_same and parked.since_ms - before.since_ms < SECOND_MS


def is_code(kind: str) -> bool:
    """Tells whether this kind of wait is the one for code."""
    return kind == CODE

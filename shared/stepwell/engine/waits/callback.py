"""A wait for a POST to its own URL, by an outside system that may send heartbeats meanwhile.

Each has its own topic, which only that URL can send an event to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stepwell.definition.graph import Json, Wait
from stepwell.engine.names import Moment
from stepwell.engine.records import Arm, Failure, Parked, Pause, Resumption, Topic
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Coming, Place, WaitKind, Waker
from stepwell.engine.waits.topics import callback_topic

BEAT = "heartbeat"


class CallbackWait(WaitKind):
    """Its event holds the body of the post, or an error."""

    @property
    def timeouts(self) -> frozenset[str]:
        return super().timeouts | {"heartbeat_timeout"}

    def arm(self, wait: Wait, place: Place) -> Arm:
        return Arm(self.name, (callback_topic(next(place.callbacks)),))

    def topics_of(self, moment: Moment, token: Token, pause: Pause) -> tuple[Topic, ...]:
        """The step made its URL from its idempotency key."""
        return (callback_topic(f"{moment.run.run_id}|{token.id}|s{token.entered_slot}"),)

    def park_for_step(self, moment: Moment, token: Token, pause: Pause) -> Parked:
        return replace(super().park_for_step(moment, token, pause), heartbeat_ms=pause.heartbeat_ms)

    def dues(self, parked: Parked, index: int, received: Sequence[Resumption]) -> list[tuple[int, Resumption]]:
        beat_ms = heartbeat_of(parked, index)
        if beat_ms is None or any(one.arm == index and one.kind == "event" for one in received):
            return []
        since_ms = max(parked.since_ms, last_beat_ms(parked, index, received))
        return [(since_ms + beat_ms, Resumption("timeout", index, BEAT))]

    def value(self, arm: Arm, resumptions: Sequence[Resumption]) -> Json:
        return resumptions[-1].payload["body"] if resumptions else None

    def brought(self, resumption: Resumption) -> dict[str, Json]:
        body = resumption.payload["body"]
        return body if isinstance(body, dict) else {"callback": body}

    def failure(self, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        if resumption.kind == "timeout" and parked.asked_by_step is not None and parked.asked_by_step.failing:
            return parked.asked_by_step.failing
        if resumption.kind == "timeout" and resumption.name == BEAT:
            message = f"{node} had no heartbeat for {(heartbeat_of(parked, resumption.arm) or 0) / 1000:g} s"
            return Failure("heartbeat_timeout", "timeout", message, step=node, attempts=waited + 1)
        if resumption.kind == "event" and resumption.payload and "error" in resumption.payload:
            error = resumption.payload["error"]
            return Failure(error["type"], "external", error["message"], step=node, data=error.get("data"))
        return super().failure(parked, resumption, node, waited)

    def wakers(self, arm: Arm, run_id: str, branch: str) -> list[Waker]:
        return [Waker("call", "a POST to the callback's URL")]


CALLBACK = CallbackWait("callback", comings={BEAT: Coming("heartbeat.received", "call", ends=False, only_last=True)})


def heartbeat_of(parked: Parked, index: int) -> int | None:
    """Returns after which time without a heartbeat this arm fails; None: it needs none."""
    return parked.arms[index].heartbeat_ms if _has_own_heartbeats(parked) else parked.heartbeat_ms


def heartbeats_due(token: Token) -> list[int]:
    """Returns by when each open callback of a wait needs a heartbeat; empty if none does."""
    if token.parked is None or token.resumption is not None:
        return []
    arms = enumerate(token.parked.arms)
    dues = (CALLBACK.dues(token.parked, index, token.received) for index, arm in arms if arm.kind == CALLBACK.name)
    return [at_ms for due in dues for at_ms, _ in due]


def last_beat_ms(parked: Parked, index: int, received: Iterable[Resumption]) -> int:
    """Until when whoever works on the callback of this arm is known to live; 0: there was no heartbeat."""
    is_own = _has_own_heartbeats(parked)
    beats = (one for one in received if one.kind == BEAT and (one.arm == index or not is_own))
    return max((one.payload["at_ms"] for one in beats), default=0)


def _has_own_heartbeats(parked: Parked) -> bool:
    """Tells whether each arm has its own. Waits of earlier releases had one for all of them."""
    return any(arm.heartbeat_ms is not None for arm in parked.arms)

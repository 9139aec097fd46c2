"""The protocol of a wait kind: its methods for the engine, the runtime and the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from stepwell.definition.durations import show_duration
from stepwell.definition.graph import Json, Wait
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.copying import changed
from stepwell.engine.names import Moment, Names, iso
from stepwell.engine.records import UPDATE, Arm, Failure, Parked, Pause, Record, Resumption, Topic
from stepwell.engine.table import LEGAL, Phase, Signal
from stepwell.engine.token import StepView, Token
from stepwell.errors import EngineFault
from stepwell.limits import YEAR_MS
from stepwell.values import dataclass


class Coming(NamedTuple):
    """One way to reach a wait: a `kind` of Resumption, and its name in the history."""

    entry: str  # the type of its history entry
    trigger: str = "internal"  # internal | timeout | call | event
    ends: bool = True  # False: it is written down, and the wait goes on
    is_part: bool = False  # it is for one arm, which may need more than one
    is_value: bool = False  # its payload is the value of the whole wait
    only_last: bool = False  # the last one replaces those before it
    announces: str = ""  # the event that tells listeners of it


class Waker(NamedTuple):
    """Something that can end a wait, in words for people."""

    what: str  # timer | event | call | lock
    detail: str
    at_ms: int | None = None


class Began(NamedTuple):
    """The history entry of the beginning of a wait."""

    entry: str
    data: Json
    attempt: int = 0


class Reason(NamedTuple):
    """Why a run waits, for a kind of wait with its own explanation."""

    text: str
    wakers: tuple[Waker, ...] = ()


class Place(NamedTuple):
    """Where a wait of a definition, or of a durable function, is parked."""

    names: Names  # for its templates
    run_id: str
    callbacks: Iterator[str]  # the ids of its callbacks, in the order of its arms


@dataclass(frozen=True)
class WaitKind:
    """A kind of wait. By default, the first resumption ends it and is its value."""

    name: str  # as records hold it
    signal: Signal = Signal.AWAITED_EVENT  # which decides the phase that the token parks in
    entry: str = "event.awaited"  # the history entry of its beginning
    over: str = ""  # the history entry of its end by its timer
    is_timed: bool = False  # its timer completes it: there is no time-out
    is_all: bool = False  # each of its arms has to end
    of_people: bool = False  # a person brings its event: of several waits, lists show this one
    judges: bool = False  # its `flaw` is told to whoever sends an event to its run
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names it sets: the keys of its value to look in
    comings: Mapping[str, Coming] = field(default_factory=dict)  # what can reach this kind alone
    thing: str = ""  # what it waits for, in words; else its name

    @property
    def phase(self) -> Phase:
        """Where a token parks."""
        return LEGAL[Phase.EXECUTING_STEP, self.signal]

    @property
    def awaited(self) -> str:
        """What it waits for, in words, such as `an approval`."""
        return self.thing or f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    @property
    def asks_people(self) -> bool:
        """Tells whether a person answers: of several waits of a run, lists show this one."""
        return self.signal is Signal.AWAITED_APPROVAL

    @property
    def longest_ms(self) -> int:
        """The longest time limit that a definition may give."""
        return SCHEMAS[self.name].longest_ms if self.name in SCHEMAS else YEAR_MS

    @property
    def timeouts(self) -> frozenset[str]:
        """The types of the failures that tell of a time-out."""
        return frozenset({f"{self.name}_timeout"})

    # -- topics

    def arm(self, wait: Wait, place: Place) -> Arm:
        """What a wait of a definition registers. Raises ExpressionError for a template that cannot be filled in."""
        return Arm(self.name)

    def park_for_step(self, moment: Moment, token: Token, pause: Pause) -> Parked:
        """The wait that a step asked for."""
        return Parked(
            kind=self.name,
            arms=(Arm(self.name, self.topics_of(moment, token, pause)),),
            until_ms=None if pause.timeout_ms is None else moment.now_ms + pause.timeout_ms,
            timer_arm=0 if self.is_timed else None,
            data=pause.data,
            since_ms=moment.now_ms,
            asked_by_step=pause,
        )

    def topics_of(self, moment: Moment, token: Token, pause: Pause) -> tuple[Topic, ...]:
        """The topics of the wait that a step asked for."""
        return ()

    # -- when something is due, beside the time limit

    def dues(self, parked: Parked, index: int, received: Sequence[Resumption]) -> list[tuple[int, Resumption]]:
        """What happens to the arm with this index by itself, and when."""
        return []

    # -- parts, and when the wait is complete

    def part(
        self, arm: Arm, resumption: Resumption, received: Sequence[Resumption], *, complete: bool
    ) -> Resumption | None:
        """What came, as a part of what the arm is for; None leaves it for other waits."""
        return None if complete else resumption

    def takes(self, moment: Moment, token: Token, at_ms: int) -> bool:
        """Whether an event of this time can be what is waited for."""
        return True

    def flaw(self, arm: Arm, payload: Json) -> str:
        """What is wrong with an event that was sent to this wait alone; "" where nothing is."""
        return ""

    def progress(self, arm: Arm, resumptions: Sequence[Resumption]) -> dict[str, Json]:
        """What a waiting run shows of the parts that have come."""
        return {}

    def is_complete(self, arm: Arm, resumptions: Sequence[Resumption]) -> bool:
        """Whether all that the arm is for has come."""
        return len({one.part for one in resumptions}) >= arm.need if arm.parts or arm.need > 1 else bool(resumptions)

    def is_refused(self, arm: Arm, index: int, resumptions: Sequence[Resumption]) -> bool:
        """Tells whether the last part means that the arm can never be complete."""
        return False

    # -- value

    def value(self, arm: Arm, resumptions: Sequence[Resumption]) -> Json:
        """Returns the result of an arm from all its parts."""
        return resumptions[-1].payload if resumptions else None

    def brought(self, resumption: Resumption) -> dict[str, Json]:
        """What is joined with the result of the step that asked for the wait."""
        return resumption.payload if isinstance(resumption.payload, dict) else {"event": resumption.payload}

    def title(self, wait: Wait) -> str:
        """The name of its value among those of other waits."""
        return self.name

    # -- failure

    def failure(self, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        """Returns the end of the wait as an error; None if the wait succeeded."""
        if resumption.kind != "timeout":
            return None
        kind = what = parked.kind
        if parked.limit_arm is not None:
            arm = parked.arms[resumption.arm]
            kind, what = arm.kind, arm.kind if arm.name.startswith(arm.kind) else f"{arm.kind} {arm.name}"
        message = f"{node} waited for {what} until its time was up"
        return Failure(f"{kind}_timeout", "timeout", message, step=node, attempts=waited + 1)

    def forgives(self, wait: Wait, resumption: Resumption) -> bool:
        """Whether the definition takes the failure as a result."""
        return False

    # -- the token

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """What becomes of the token that parks: fields by name."""
        is_asked = parked.asked_by_step is not None
        began = token.steps.get(record.node)
        is_first = token.waited == 0 and record.attempt == 0 and (token.attempt == 0 or is_asked)
        if began is None or (began.status != "waiting" and is_first):
            attempts = began.attempts if is_asked and began else 0
            began = StepView("waiting", started_ms=record.at_ms, attempts=attempts)
        view = changed(began, status="waiting", ended_ms=0)
        if parked.children:
            called = tuple(replace(one, input=None) for one in parked.children)
            view = changed(view, children=called, called_slot=record.slot)
        kept = token.received if record.attempt else ()  # waited for again: what has come has come
        return {"steps": {**token.steps, record.node: view}, "parked": parked, "resumption": None, "received": kept,
                "received_slot": -1, "waited": record.attempt, "acted": 0, "fork": None,
                **({"scope": {**token.scope, **record.writes}} if record.writes else {})}  # fmt: skip

    def resumed(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """What becomes of the token whose wait is over: fields by name."""
        asked = parked.asked_by_step
        if asked is not None and asked.then == "again":  # a new call of the step, so a new idempotency key
            entered_slot = record.slot + 1 - token.shift
            return {"resumption": record.resumption, "entered_slot": entered_slot, "attempt": 0, "keyed_by": ""}
        return {"resumption": record.resumption}

    # -- words

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        """What the history tells of its beginning."""
        data: dict[str, Json] = {"for": parked.kind, "until": _iso(parked.until_ms), "data": parked.data}
        topics = [{"name": topic.name, "key": topic.key.removeprefix("=") or None}
                  for arm in parked.arms for topic in arm.topics if not topic.key.startswith("@")]  # fmt: skip
        data |= {"topics": topics} if topics else {}  # but for those of its run alone
        return Began(self.entry, data, record.attempt + 1)

    def words(self, wait: Wait) -> str:
        """Returns the words of the wait in a picture of its workflow."""
        return limited(self.title(wait), wait, ", at most ")

    def wakers(self, arm: Arm, run_id: str, branch: str) -> list[Waker]:
        """Returns what can end an arm. `branch` names the token to callers; "" is the root."""
        found = []
        for topic in arm.topics:
            whom = f"sent to this run (POST /runs/{run_id}/events)" if topic.key.startswith("@") else "sent to anybody"
            if topic.key.startswith("="):
                whom = f"with key {topic.key[1:]!r}"
            match = f" that satisfies {arm.match}" if arm.match else ""
            found.append(Waker("event", f"an event {topic.name} {whom}{match}"))
        return found

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason | None:
        """Returns why the run waits; None for most kinds, which wait until something ends them."""
        return None


def limited(what: str, wait: Wait, between: str) -> str:
    """Adds the time limit to the words."""
    if wait.timeout is not None:
        return f"{what} {wait.timeout.text}"
    return what if wait.timeout_ms is None else f"{what}{between}{show_duration(wait.timeout_ms)}"


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)


KINDS: dict[str, WaitKind] = {}  # by name
COMINGS: dict[str, Coming] = {  # by the kind of a Resumption
    "timer": Coming("timer.fired", "timeout", is_value=True),
    "timeout": Coming("timer.fired", "timeout", is_value=True),
    UPDATE: Coming("update.received", "call", ends=False),
}
_OTHER = Coming("")


def register(kind: WaitKind) -> None:
    """Registers a kind."""
    KINDS[kind.name] = kind
    COMINGS.update(kind.comings)


def kind_named(name: str) -> WaitKind:
    """Raises EngineFault for a kind that this code does not have."""
    kind = KINDS.get(name)
    if kind is None:
        raise EngineFault(f"this version has no wait kind {name!r}; a newer one may", code="unknown_wait")
    return kind


def coming_of(resumption: Resumption) -> Coming:
    """Returns how this resumption reached its wait."""
    return COMINGS.get(resumption.kind, _OTHER)


UNTIL_TIMEOUT = "until_timeout"  # of `ctx.until`: its function parks at a sleep, or at what it awaits beside


def is_timeout(failure_type: str) -> bool:
    """Tells whether this type of failure is a wait's time-out."""
    return failure_type == UNTIL_TIMEOUT or any(failure_type in kind.timeouts for kind in KINDS.values())

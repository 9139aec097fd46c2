"""Messages: they say where to look, never what is true. Each has an id that is the same in every copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TypeAlias

from stepwell.definition.graph import DEFAULT_POOL, Json
from stepwell.engine import formats
from stepwell.engine.names import iso
from stepwell.engine.records import ROOT, Topic
from stepwell.errors import EngineFault
from stepwell.runtime.ports import Event, Schedule

# EventBridge Scheduler puts the time here for which an invocation was scheduled: 2030-01-31T09:00:00Z.
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"


@dataclass(frozen=True, slots=True)
class Wake:
    """Record `slot` of `token` wants pushing on; slot -1: the token has no record yet.

    `pool` says which workers it is for, `hops` how many messages there have been about this record before.
    `count`: so many branches from `token` on, each of which has no record yet.
    """

    run_id: str
    slot: int
    token: str = ROOT
    pool: str = DEFAULT_POOL
    hops: int = 0
    count: int = 1

    @property
    def id(self) -> str:
        several = f"+{self.count}" if self.count > 1 else ""
        return f"wake:{self.token}{several}:{self.slot}"

    def under(self, by: str) -> Wake:
        """A copy of the wake under which the token's last record was written; the wake as it is if none of it was."""
        slot = by.removeprefix(f"wake:{self.token}:")
        return self if slot == by else replace(self, slot=int(slot))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens it is about."""
        if self.count == 1:
            return (self.token,)
        fork, _, first = self.token.rpartition(".")
        return tuple(f"{fork}.{int(first) + offset}" for offset in range(self.count))

    @property
    def each(self) -> tuple[Wake, ...]:
        """A wake for each of its tokens, whose records name their own."""
        return tuple(replace(self, token=token, count=1) for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Timer:
    """The time of the wait in `slot` is up."""

    run_id: str
    slot: int
    token: str = ROOT

    @property
    def id(self) -> str:
        return f"timer:{self.token}:{self.slot}"


@dataclass(frozen=True, slots=True)
class Deadline:
    """The run's own time is up."""

    run_id: str

    @property
    def id(self) -> str:
        return "deadline"


@dataclass(frozen=True, slots=True)
class Publish:
    """An event arrived from outside. `kept`: it is in the mailbox already."""

    event: Event
    kept: bool = False

    @property
    def id(self) -> str:
        return f"event:{self.event.topic}:{self.event.id}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """This wake killed its worker too often."""

    wake: Wake

    @property
    def id(self) -> str:
        return f"dead:{self.wake.token}:{self.wake.slot}"


@dataclass(frozen=True, slots=True)
class Update:
    """A durable function's handler is to change it; `times`: how often it could not be done yet."""

    run_id: str
    event_id: str
    times: int = 0

    @property
    def id(self) -> str:
        return f"update:{self.event_id}"


@dataclass(frozen=True, slots=True)
class Shut:
    """One page of a fork's branches is to end: nobody waits for them any more."""

    run_id: str
    parent: str
    slot: int
    page: int

    @property
    def id(self) -> str:
        return f"shut:{self.parent}/{self.slot}@{self.page}"


@dataclass(frozen=True, slots=True)
class HoldPage:
    """One page's branches are to be held, because the run is paused; or to go on."""

    run_id: str
    parent: str
    slot: int
    page: int
    goes_on: bool = False

    @property
    def id(self) -> str:
        return f"{'go_on' if self.goes_on else 'hold'}:{self.parent}/{self.slot}@{self.page}"


@dataclass(frozen=True, slots=True)
class GoOn:
    """The run is to go on, from its pause of this time."""

    run_id: str
    paused_ms: int

    @property
    def id(self) -> str:
        return f"go_on:{self.paused_ms}"


@dataclass(frozen=True, slots=True)
class GoOnAll:
    """The runs that a workflow's pause has stopped are to go on.

    `note`: the pause as it was stored. `cursor`: where the page of runs begins. `again`: they were listed before.
    """

    workflow: str
    note: str
    cursor: str = ""
    again: bool = False

    @property
    def id(self) -> str:
        return f"go_on_all:{self.workflow}:{self.cursor}"


@dataclass(frozen=True, slots=True)
class EndRun:
    """A child run is to end: the wait for it, in this place of its parent's log, is over.

    `slot` -1: a run that takes another's place under their limit, and is no parent of it.
    """

    run_id: str
    parent: str
    token: str
    slot: int

    @property
    def id(self) -> str:
        return f"parent:{self.parent}:{self.token}:{self.slot}" if self.slot >= 0 else f"limit:{self.parent}"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A time of a schedule has come. `made`: the schedule itself, of one that a caller made.

    `at_ms` 0: whoever sends it says when; an emulator does not.
    """

    schedule: str
    at_ms: int = 0
    made: Schedule | None = None

    @property
    def id(self) -> str:
        return f"scheduled:{self.schedule}:{self.at_ms}"


@dataclass(frozen=True, slots=True)
class Deployed:
    """Code was deployed: whoever waits for code is to try it."""

    deploy_id: str

    @property
    def id(self) -> str:
        return f"deployed:{self.deploy_id}"


@dataclass(frozen=True, slots=True)
class Erase:
    """The run was deleted: what a late worker has written to it since is to go too. `forks` are those it had."""

    run_id: str
    snapshot: str = ""
    forks: tuple[tuple[str, int, int], ...] = ()

    @property
    def id(self) -> str:
        return f"erase:{self.run_id}"


Message: TypeAlias = (
    Wake
    | Timer
    | Deadline
    | Publish
    | Deployed
    | DeadLetter
    | Shut
    | HoldPage
    | GoOn
    | GoOnAll
    | EndRun
    | Scheduled
    | Update
    | Erase
)


def to_json(message: Message) -> dict[str, Json]:
    """The message as a queue carries it, with its format's number."""
    return {**_body(message), formats.KEY: formats.FORMAT}


def _body(message: Message) -> dict[str, Json]:
    match message:
        case Wake(run_id, slot, token, pool, hops, count):
            more: dict[str, Json] = {"pool": pool} if pool != DEFAULT_POOL else {}
            more |= {"hops": hops} if hops else {}
            more |= {"count": count} if count > 1 else {}
            return {"type": "wake", "run_id": run_id, "token": token, "slot": slot, **more}
        case Timer(run_id, slot, token):
            return {"type": "timer", "run_id": run_id, "token": token, "slot": slot}
        case Deadline() | Deployed() | GoOn() | GoOnAll() | Erase():
            return _brief(message)
        case Shut() | HoldPage():
            return _of_page(message)
        case Update(run_id, event_id, times):
            again: dict[str, Json] = {"times": times} if times else {}
            return {"type": "update", "run_id": run_id, "event_id": event_id, **again}
        case EndRun(run_id, parent, token, slot):
            return {"type": "end_run", "run_id": run_id, "parent": parent, "token": token, "slot": slot}
        case DeadLetter(wake):
            return {"type": "dead_letter", "wake": _body(wake)}
        case Scheduled(schedule, at_ms, made):
            body = {"type": "scheduled", "schedule": schedule, "at": iso(at_ms) if at_ms else SCHEDULED_TIME}
            return {**body, "made": asdict(made)} if made else body
        case Publish(event, kept):
            return {
                "type": "publish",
                **({"kept": True} if kept else {}),
                "topic": [event.topic.name, event.topic.key],
                "id": event.id,
                "payload": event.payload,
                "at_ms": event.at_ms,
                "expires_ms": event.expires_ms,
            }


def from_json(raw: Mapping[str, Json]) -> Message:
    """Raises NewerFormat for a message of newer code, EngineFault for something that is none of our messages."""
    try:
        formats.check_format(raw.get(formats.KEY, formats.OLDEST), "message")
        match raw["type"]:
            case "wake":
                return _wake_of(raw)
            case "timer":
                return Timer(raw["run_id"], raw["slot"], raw["token"])
            case "deadline" | "deployed" | "update" | "go_on" | "go_on_all" | "erase":
                return _of_brief(raw)
            case "shut" | "hold_page":
                return _page_of(raw)
            case "end_run":
                return EndRun(raw["run_id"], raw["parent"], raw["token"], raw["slot"])
            case "dead_letter":
                return DeadLetter(_wake_of(raw["wake"]))
            case "scheduled":
                made = Schedule(**raw["made"]) if "made" in raw else None
                return Scheduled(raw["schedule"], _time_ms(raw["at"]), made)
            case "publish":
                topic = Topic(*raw["topic"])
                event = Event(topic, raw["id"], raw["payload"], raw["at_ms"], raw["expires_ms"])
                return Publish(event, raw.get("kept", False))
    except formats.BROKEN as error:
        raise EngineFault(f"a message without its parts: {error!r}", code="broken_message") from error
    raise EngineFault(f"a message of unknown type {raw['type']!r}", code="broken_message")


def _time_ms(text: str) -> int:
    return 0 if text == SCHEDULED_TIME else int(datetime.fromisoformat(text).timestamp() * 1_000)


def _of_page(message: Shut | HoldPage) -> dict[str, Json]:
    place: dict[str, Json] = {"run_id": message.run_id, "parent": message.parent, "slot": message.slot}
    if isinstance(message, Shut):
        return {"type": "shut", **place, "page": message.page}
    return {"type": "hold_page", **place, "page": message.page, **({"goes_on": True} if message.goes_on else {})}


def _page_of(raw: Mapping[str, Json]) -> Shut | HoldPage:
    place = raw["run_id"], raw["parent"], raw["slot"], raw["page"]
    return Shut(*place) if raw["type"] == "shut" else HoldPage(*place, goes_on=raw.get("goes_on", False))


def _brief(message: Deadline | Deployed | GoOn | GoOnAll | Erase) -> dict[str, Json]:
    if isinstance(message, GoOnAll):
        return {"type": "go_on_all", **asdict(message)}
    if isinstance(message, Erase):
        forks = [[*fork] for fork in message.forks]
        return {"type": "erase", "run_id": message.run_id, "snapshot": message.snapshot, "forks": forks}
    if isinstance(message, GoOn):
        return {"type": "go_on", "run_id": message.run_id, "paused_ms": message.paused_ms}
    if isinstance(message, Deployed):
        return {"type": "deployed", "id": message.deploy_id}
    return {"type": "deadline", "run_id": message.run_id}


def _of_brief(raw: Mapping[str, Json]) -> Deadline | Deployed | Update | GoOn | GoOnAll | Erase:
    if raw["type"] == "go_on_all":
        return GoOnAll(raw["workflow"], raw["note"], raw["cursor"], raw["again"])
    if raw["type"] == "erase":
        return Erase(raw["run_id"], raw["snapshot"], tuple((one[0], one[1], one[2]) for one in raw["forks"]))
    if raw["type"] == "go_on":
        return GoOn(raw["run_id"], raw["paused_ms"])
    if raw["type"] == "deployed":
        return Deployed(raw["id"])
    if raw["type"] == "deadline":
        return Deadline(raw["run_id"])
    return Update(raw["run_id"], raw["event_id"], raw.get("times", 0))


def _wake_of(raw: Mapping[str, Json]) -> Wake:
    more = {name: raw[name] for name in ("pool", "hops", "count") if name in raw}
    return Wake(raw["run_id"], raw["slot"], raw["token"], **more)

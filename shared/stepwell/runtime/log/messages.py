"""Messages: they say where to look, never what is true. All copies of a message have the same id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TypeAlias

from stepwell.definition.graph import DEFAULT_POOL, Json
from stepwell.engine.copying import changed, quick
from stepwell.engine.names import iso
from stepwell.engine.records import ROOT, Topic
from stepwell.engine.stored import formats
from stepwell.errors import EngineFault
from stepwell.runtime.ports import Event, Schedule
from stepwell.values import dataclass

# EventBridge Scheduler replaces this by the time of the invocation, such as 2030-01-31T09:00:00Z.
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"


@quick
@dataclass(frozen=True)
class Wake:
    """Record `slot` of `token` has to be pushed on; slot -1: the token has no record yet.

    `pool`: the workers that it is for; `hops`: how many messages there were about this record before. `count`: how many
    branches it is about, from `token` on, each of which has no record yet. `yields`: nobody had taken the run up, and
    there may be another such message, so at its first delivery it leaves the run to the worker that has taken it up.
    `late`: another was sent for this record. What that one's worker has written since is not for this one.
    """

    run_id: str
    slot: int
    token: str = ROOT
    pool: str = DEFAULT_POOL
    hops: int = 0
    count: int = 1
    yields: bool = False
    late: bool = False

    @property
    def id(self) -> str:
        several = f"+{self.count}" if self.count > 1 else ""
        return f"wake:{self.token}{several}:{self.slot}{':late' if self.late else ''}"

    @property
    def tokens(self) -> tuple[str, ...]:
        """Returns the ids of the tokens that it is about."""
        if self.count == 1:
            return (self.token,)
        fork, _, first = self.token.rpartition(".")
        return tuple(f"{fork}.{int(first) + offset}" for offset in range(self.count))

    @property
    def each(self) -> tuple[Wake, ...]:
        """Returns a wake for each of its tokens, to be named in the records of that token."""
        return (self,) if self.count == 1 else tuple(changed(self, token=token, count=1) for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Timer:
    """The time limit of the wait in `slot` has passed."""

    run_id: str
    slot: int
    token: str = ROOT

    @property
    def id(self) -> str:
        return f"timer:{self.token}:{self.slot}"


@dataclass(frozen=True, slots=True)
class Deadline:
    """The run's time limit has passed."""

    run_id: str

    @property
    def id(self) -> str:
        return "deadline"


@dataclass(frozen=True, slots=True)
class Publish:
    """An event arrived from outside. `kept`: it is in the mailbox already.

    `after`: the wait up to which it was offered, in the order of its topic, before the time of a worker was over.
    """

    event: Event
    kept: bool = False
    after: tuple[int, str, str, int, int] | tuple[()] = ()

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
    """A durable function's update handler has to run. `times`: how often it could not run yet."""

    run_id: str
    event_id: str
    times: int = 0

    @property
    def id(self) -> str:
        return f"update:{self.event_id}"


@dataclass(frozen=True, slots=True)
class Shut:
    """The branches of one page of a fork have to end: nobody waits for them any more."""

    run_id: str
    parent: str
    slot: int
    page: int

    @property
    def id(self) -> str:
        return f"shut:{self.parent}/{self.slot}@{self.page}"


@dataclass(frozen=True, slots=True)
class HoldPage:
    """The branches of one page have to be held because the run is paused, or to go on.

    `after_ms`: the time of the pause that is over; 0: they have to be held.
    """

    run_id: str
    parent: str
    slot: int
    page: int
    after_ms: int = 0

    @property
    def id(self) -> str:
        return f"{'go_on' if self.after_ms else 'hold'}:{self.parent}/{self.slot}@{self.page}"


@dataclass(frozen=True, slots=True)
class GoOn:
    """The run has to go on from its pause of this time."""

    run_id: str
    paused_ms: int

    @property
    def id(self) -> str:
        return f"go_on:{self.paused_ms}"


@dataclass(frozen=True, slots=True)
class GoOnAll:
    """The runs that a workflow's pause has stopped have to go on.

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
    """A child run has to end: the wait for it, in this place of its parent's log, is over.

    `slot` -1: a run takes another's place under their limit, and is no parent of it.
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
    """A time of a schedule has come. `made`: the schedule itself, if a caller made it.

    `at_ms` 0: the sender knows no time, as an emulator that does not fill in SCHEDULED_TIME.
    """

    schedule: str
    at_ms: int = 0
    made: Schedule | None = None

    @property
    def id(self) -> str:
        return f"scheduled:{self.schedule}:{self.at_ms}"


@dataclass(frozen=True, slots=True)
class Deployed:
    """Code was deployed: tokens that wait for code have to try it."""

    deploy_id: str

    @property
    def id(self) -> str:
        return f"deployed:{self.deploy_id}"


@dataclass(frozen=True, slots=True)
class Erase:
    """The run was deleted: what a late worker has written to it since has to go too.

    `forks`: those that it had. `waits`: (topic's name and key, token, slot, arm) of its latest ones. `children`: those
    that it had yet to start. `held_until_ms`: until when its id is refused; None: an earlier version did not say.
    `rate`: the name of the rate limit under which a late worker may take a turn for it.
    """

    run_id: str
    snapshot: str = ""
    forks: tuple[tuple[str, int, int], ...] = ()
    waits: tuple[tuple[str, str, str, int, int], ...] = ()
    held_until_ms: int | None = None
    children: tuple[str, ...] = ()
    rate: str = ""

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
    """Returns the message as a queue carries it, with the number of its format."""
    return {**_body(message), formats.KEY: formats.FORMAT}


def _body(message: Message) -> dict[str, Json]:
    match message:
        case Wake(run_id, slot, token, pool, hops, count, yields, late):
            more: dict[str, Json] = {"pool": pool} if pool != DEFAULT_POOL else {}
            more |= {"hops": hops} if hops else {}
            more |= {"count": count} if count > 1 else {}
            more |= {name: True for name, is_set in (("yields", yields), ("late", late)) if is_set}
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
            return {**body, "made": made.stored()} if made else body
        case Publish(event, kept, after):
            return {
                "type": "publish",
                **({"kept": True} if kept else {}),
                **({"after": [*after]} if after else {}),
                "topic": [event.topic.name, event.topic.key],
                "id": event.id,
                "payload": event.payload,
                "at_ms": event.at_ms,
                "expires_ms": event.expires_ms,
            }


def from_json(raw: Mapping[str, Json]) -> Message:
    """Decodes a message. Raises NewerFormat for one of newer code, EngineFault for one that is broken or unknown."""
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
                return Publish(event, raw.get("kept", False), tuple(raw.get("after", ())))
    except formats.BROKEN as error:
        raise EngineFault(f"a message without its parts: {error!r}", code="broken_message") from error
    raise EngineFault(f"a message of unknown type {raw['type']!r}", code="broken_message")


def _time_ms(text: str) -> int:
    return 0 if text == SCHEDULED_TIME else int(datetime.fromisoformat(text).timestamp() * 1_000)


def _of_page(message: Shut | HoldPage) -> dict[str, Json]:
    place: dict[str, Json] = {"run_id": message.run_id, "parent": message.parent, "slot": message.slot}
    if isinstance(message, Shut):
        return {"type": "shut", **place, "page": message.page}
    return {
        "type": "hold_page",
        **place,
        "page": message.page,
        **({"goes_on": message.after_ms} if message.after_ms else {}),
    }


def _page_of(raw: Mapping[str, Json]) -> Shut | HoldPage:
    place = raw["run_id"], raw["parent"], raw["slot"], raw["page"]
    return Shut(*place) if raw["type"] == "shut" else HoldPage(*place, after_ms=raw.get("goes_on", 0))


def _brief(message: Deadline | Deployed | GoOn | GoOnAll | Erase) -> dict[str, Json]:
    if isinstance(message, GoOnAll):
        return {"type": "go_on_all", **asdict(message)}
    if isinstance(message, Erase):
        forks, waits = [[*fork] for fork in message.forks], [[*wait] for wait in message.waits]
        more: dict[str, Json] = {"waits": waits} if waits else {}
        more |= {"held_until_ms": message.held_until_ms} if message.held_until_ms else {}
        more |= {"children": [*message.children]} if message.children else {}
        more |= {"rate": message.rate} if message.rate else {}
        return {"type": "erase", "run_id": message.run_id, "snapshot": message.snapshot, "forks": forks, **more}
    if isinstance(message, GoOn):
        return {"type": "go_on", "run_id": message.run_id, "paused_ms": message.paused_ms}
    if isinstance(message, Deployed):
        return {"type": "deployed", "id": message.deploy_id}
    return {"type": "deadline", "run_id": message.run_id}


def _of_brief(raw: Mapping[str, Json]) -> Deadline | Deployed | Update | GoOn | GoOnAll | Erase:
    if raw["type"] == "go_on_all":
        return GoOnAll(raw["workflow"], raw["note"], raw["cursor"], raw["again"])
    if raw["type"] == "erase":
        forks = tuple((one[0], one[1], one[2]) for one in raw["forks"])
        waits = tuple((one[0], one[1], one[2], one[3], one[4]) for one in raw.get("waits", ()))
        more = raw.get("held_until_ms"), tuple(raw.get("children", ())), raw.get("rate", "")
        return Erase(raw["run_id"], raw["snapshot"], forks, waits, *more)
    if raw["type"] == "go_on":
        return GoOn(raw["run_id"], raw["paused_ms"])
    if raw["type"] == "deployed":
        return Deployed(raw["id"])
    if raw["type"] == "deadline":
        return Deadline(raw["run_id"])
    return Update(raw["run_id"], raw["event_id"], raw.get("times", 0))


def _wake_of(raw: Mapping[str, Json]) -> Wake:
    more = {name: raw[name] for name in ("pool", "hops", "count", "yields", "late") if name in raw}
    return Wake(raw["run_id"], raw["slot"], raw["token"], **more)

"""The world of one schedule: ports that stop at every call, messages that come twice and late, a clock that jumps.

An actor is a coroutine that handles one message. It stops before and after each call to a port; there the scheduler
may run another actor, kill this one, or let it see an error after the call has happened.
"""

from __future__ import annotations

import copy
import random
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, cast

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.forks import branch_id
from stepwell.engine.lanes import split_lane
from stepwell.engine.records import Kind, Record, Topic
from stepwell.engine.token_batches import decode_records
from stepwell.engine.waits.topics import callback_topic
from stepwell.errors import PortError
from stepwell.limits import FORKS_KEPT
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.outputs import Output, Outputs
from stepwell.runtime.ports import Blobs, Event, Lane, Ports, Saved
from stepwell.runtime.steps.output import Emitted
from stepwell.runtime.steps.port import Updated, WriteRecord
from tests.sim.batch_laws import watch_begin, watch_call, watch_end
from tests.sim.fn_code import CANNOT_IMPORT
from tests.sim.fn_programs import workers_of
from tests.sim.programs import SUFFIX, Program, expression
from tests.sim.race_programs import LAST_CALL
from tests.sim.tree import RUN, Logs, batch_of
from tests.sim.versions import Deploy

_REGISTERING = frozenset({"append", "change_status", "pending_events", "put_waiter"})  # the calls of a new wait
_CALLBACK = callback_topic("").name
_POSTED: Json = {"body": {}}  # what is posted to a callback's URL
_UNDONE = ""  # in the place of a token: a compensation, whose record is of the token that undoes
START_MS = 1_700_000_000_000
MOST_BUSY = 20  # who are in steps that take time, before no further copies come
MOST_REPEATED = 300  # wakes; else a step that kills its worker would never be done with


@types.coroutine
def stop(what: str) -> Generator[str, bool, bool]:
    """A place where the scheduler takes over. True: this actor is to see an error here."""
    return (yield what)


@dataclass(eq=False)
class Envelope:
    """A message under way, or a client's call; a client repeats its call until it is answered."""

    kind: str  # work | resume | client
    body: Mapping[str, Any]
    at_ms: int = 0
    deliveries: int = 0
    number: int = 0
    is_left: bool = False  # to newer code, by old code that took it

    def __str__(self) -> str:
        inner = {key: value for key, value in self.body.items() if key not in {"type", "run_id", "payload"}}
        return f"{self.kind}#{self.number} {self.body.get('type', '')}{inner}"


@dataclass(eq=False)
class Actor:
    """Somebody at work on a envelope."""

    name: str
    envelope: Envelope
    coroutine: Coroutine[Any, Any, None]
    skew_ms: int
    at: str = "start"
    read: dict[tuple[str, str], int] = field(default_factory=dict)
    """(run, token) -> how many of its records this actor saw, of a page"""
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    """(run, token) -> how many of its records this actor saw, of the lane where it began"""
    worker: int = 0  # the process where it works
    ran: dict[str, list[Any]] = field(default_factory=dict)  # the attempts whose records it is to append, by token
    undid: Any = None  # the compensation that it ran last: the call, and whether it did what it should
    is_old: bool = False  # its code is that of before a deploy
    is_zombie: bool = False  # its lease ran out: its message is another's
    since_ms: int = 0  # when it took its envelope
    since: int = 0  # how many records the world had then
    is_behind: bool = False  # another was first while its step ran: what comes of that is dropped
    last_call: str = ""
    looked_at: int = -1  # how many events had been stored when it began its last look into the mailbox
    step: tuple[str, str] = ("", "")  # (run, token) of the step in which it is
    until_ms: int = 0  # in a step that takes time: until then


@dataclass
class Chances:
    """How hostile this schedule is."""

    crash: float
    error: float
    double: float
    early: float
    skew_ms: int
    hands_over: bool
    tempt: float
    bursts: bool
    zombies: float = 0.0  # how often one dies at a stop


@dataclass(frozen=True, slots=True)
class Taking:
    """An event that was consumed into a slot, and what was pending right before."""

    token: str
    slot: int
    topic: Topic
    event_id: str
    pending: Mapping[Topic, Mapping[str, Event]]
    at_ms: int
    known: int  # how many events had been stored when its taker looked


@dataclass(frozen=True, slots=True)
class Told:
    """What a client asked of a durable function, and what it was told."""

    what: str  # signal | update | answer | query
    name: str
    id: str
    given: Any
    answer: Any  # or the code of the refusal
    before: int  # records of the run's own log, when it asked
    after: int  # and when it was told


@dataclass(frozen=True, slots=True)
class Read:
    """A look of somebody who reads a run's live output along."""

    reader: str
    pieces: Sequence[Emitted]
    at_ms: int
    known: int  # how many events had been stored when it looked


@dataclass
class Seen:
    """What the checks need to know of a run beside the store."""

    ran: dict[tuple[str, str, int, int], set[str]] = field(default_factory=dict)
    """(token, node, entered, attempt) -> wakes"""
    once: dict[str, int] = field(default_factory=dict)  # idempotency key -> runs of an at_most_once step
    order: dict[tuple[str, int], int] = field(
        default_factory=dict
    )  # (token, slot) -> when it was written, in the world
    joined_on: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)  # a join -> what its writer had read
    cancelled_at_slot: int | None = None
    cancelled_after: int = 0  # records of the world, when the cancel was acknowledged
    given: dict[tuple[str, int], list[Any]] = field(default_factory=dict)  # (key, attempt) of a step -> its inputs
    undo_given: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # (key, what it undoes) -> inputs
    undo_done: set[str] = field(default_factory=set)  # what was undone by a compensation that did what it should
    undo_ran: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)  # (key, node, attempt) -> wakes
    while_undone: list[tuple[str, str]] = field(default_factory=list)  # (operation, answer), before it and after
    crashes: int = 0
    answered: list[str] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    takings: list[Taking] = field(default_factory=list)
    emitted: list[Any] = field(default_factory=list)  # live output, of which its writer heard that it is stored
    reads: list[Read] = field(default_factory=list)  # of it, in the order of their answers
    committed: dict[tuple[str, int], int] = field(default_factory=dict)  # (key, attempt) of a step -> when, in records
    ahead: list[str] = field(default_factory=list)  # of open batches: what was done too soon, or again


class World:
    """Everything that one schedule has: the engine under test, and what surrounds it."""

    def __init__(
        self,
        seed: int,
        program: Program,
        tell: Callable[[str], None] | None = None,
        deploy: Deploy | None = None,
        lane: int = 0,
    ) -> None:
        """`lane`: so many branches of a fork share a log; 0: none do. Old code knows no lanes."""
        self.rng = random.Random(seed)
        self.run_id, self.program, self.tell = RUN, program, tell
        self.main = program  # of the run that is started, whichever run this world is seen by
        self.programs = {one.graph.name: one for one in (program, *program.callees)}
        self.now_ms = START_MS
        self.stored: dict[tuple[Topic, str], int] = {}  # which event was put into the mailbox when
        self.pending: dict[Topic, dict[str, Event]] = {}  # right before the last one was consumed
        self.envelopes: list[Envelope] = []
        self.wanted: list[Topic] = []  # what the wait that is being registered wants
        self.past: list[Envelope] = []  # wakes that were delivered
        self.urgent: list[Envelope] = []  # to be delivered before others
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.turns_left = 0
        self.calls = self.sent = self.tempted = self.written = 0
        self.has_left = False  # old code has left a message to newer code, in the midst of its work
        self.mended_at = 0  # records of the world, when code was last deployed that can be imported
        self.seen_of: dict[str, Seen] = defaultdict(Seen)
        self.seen = self.seen_of[RUN]
        self.chances = self._chances()
        self.memory, self.blobs, self.lane = MemoryStore(), MemoryBlobs(), lane
        self.pauses_workflows = any(one[0] == "stop" for one in program.calls)
        self.timers: set[str] = set()
        self.logs_of = {RUN: Logs(self.memory, self.blobs)}
        self.logs = self.logs_of[RUN]
        self.warm = FORKS_KEPT if seed % 2 else 0  # one process that keeps what it has read, or many that are cold
        self.processes = workers_of(program)
        self.fate = random.Random(f"processes {seed}")  # of its own: who works on what changes nothing else
        self.deploy = deploy
        self._new = self._assemble(lane)
        self._old = self._assemble() if deploy else self._new  # processes of their own, which keep what they have read

    @property
    def parts(self) -> Assembly:
        """The code of whoever is at work."""
        return self._old if self.current and self.current.is_old else self._new

    def _chances(self) -> Chances:
        rng = self.rng
        return Chances(
            crash=rng.choice([0, 0, 0, 0.01, 0.05, 0.1]),
            error=rng.choice([0, 0, 0, 0.02, 0.05]),
            double=rng.choice([0, 0.05, 0.2, 0.5]),
            early=rng.choice([0, 0.05]),
            skew_ms=rng.choice([0, 0, 2_000]),
            hands_over=rng.random() < 0.3,
            bursts=rng.random() < 0.7,
            tempt=rng.choice([0, 0.2, 0.5]),
        )

    def _assemble(self, lane: int = 0) -> Assembly:
        store, blobs = _Stopping(self, self.memory), cast("Blobs", _Stopping(self, self.blobs))
        ports = Ports(store, store, store, store, store, store, _Queue(self), _Queue(self), blobs, _Clock(self))
        self.outputs = defaultdict[int, Outputs](lambda: Outputs(ports.mailbox, ports.clock))  # by worker
        catalog = Catalog(
            lambda document: self.program.graph, [one.graph for one in self.programs.values()], self.program.limits
        )
        return assemble(
            ports,
            catalog,
            _Steps(self),
            compile_expression=expression,
            new_id=lambda: f"{self.rng.getrandbits(40):x}",
            jitter=self.rng.random,
            snapshot_records=self.rng.choice([2, 5, 200]),
            forks_kept=self.warm,
            lane=lane,
        )

    def of(self, run_id: str) -> World:
        """This world as the laws of one run see it, as it is now."""
        if run_id == self.run_id:
            return self
        seen = replace(self.seen_of[run_id], crashes=self.seen.crashes)
        logs = self.logs_of.setdefault(run_id, Logs(self.memory, self.blobs, run_id))
        view = copy.copy(self)
        view.run_id, view.program = run_id, self.programs[self.memory._runs[run_id].workflow]
        view.seen, view.logs = seen, logs
        return view

    def runs(self) -> list[World]:
        """This world as each of its runs sees it."""
        return [self, *(self.of(run_id) for run_id in self.memory._runs if run_id != RUN)]

    def awake(self) -> list[Actor]:
        """Those who are not in the midst of a step that takes time."""
        return [actor for actor in self.actors if actor.until_ms <= self.now_ms]

    def say(self, text: str) -> None:
        if self.tell:
            self.tell(f"{(self.now_ms - START_MS) / 1000:10.1f}s  {text}")

    def post(self, envelope: Envelope) -> None:
        self.sent += 1
        envelope.number = self.sent
        self.envelopes.append(envelope)
        if envelope.body.get("type") == "end_run" and self.chances.tempt and self.rng.random() < 0.8:
            self.urgent.append(envelope)  # before whoever is about to start that run
        self.say(f"    + {envelope} at {max(envelope.at_ms - START_MS, 0) / 1000:.1f}s")

    def tempt(self, name: str, args: tuple[Any, ...]) -> None:
        """While a wait is being registered, an event that it wants is sent, so that they race each other."""
        if (
            name == "append"
            and '"waiting"' in args[3]
            and (last := _records_of(args, self.blobs)[-1][1]).kind is Kind.WAITING
        ):
            parked = last.parked
            self.wanted = [topic for arm in parked.arms for topic in arm.topics] if parked else []
        if name in _REGISTERING and self.wanted and self._is_time(name):
            self.tempted += 1
            topic = self.wanted.pop(self.rng.randrange(len(self.wanted)))
            event = Event(
                topic,
                f"t{self.tempted}",
                {"n": self.tempted, "document": f"d{self.tempted % 4}", **(_POSTED if topic.name == _CALLBACK else {})},
                self.now_ms,
                self.now_ms + 10**9,
            )
            after_ms = 1 if self.program.race == "after" else 0
            self.post(Envelope(str(Lane.RESUME), to_json(Publish(event)), self.now_ms + after_ms))
            if self.program.race:
                self.wanted = []  # one event, and no more
            if not after_ms:
                self.urgent.append(self.envelopes[-1])

    def _is_time(self, name: str) -> bool:
        """Whether the event is sent now: anywhere among these calls, or where the program says."""
        match self.program.race:
            case "":
                return self.rng.random() < self.chances.tempt
            case "before":
                return True  # before the very first of them
            case "after":
                return name == LAST_CALL
            case _:
                return name == LAST_CALL or self.rng.random() < 0.4

    def hurry(self, name: str, args: tuple[Any, ...]) -> None:
        """While a child is made, or a lock asked for, a client ends the run that does so, which was to come later."""
        maker = ""
        if name == "create_run" and args[0].parent:
            maker = args[0].parent.partition("|")[0]
        elif name == "put_note" and self.current:
            maker = str(self.current.envelope.body.get("run_id", ""))
        if not maker or self.rng.random() >= self.chances.tempt:
            return
        wanted = {"cancel", "terminate"} if maker == RUN else {"cancel child", "terminate child"}
        later = [envelope for envelope in self.envelopes if envelope.body["type"] in wanted and not envelope.deliveries]
        if later:
            envelope = self.rng.choice(later)
            envelope.at_ms = min(envelope.at_ms, self.now_ms)
            envelope.body = {**envelope.body, "run": maker}
            self.urgent.append(envelope)

    def note(self, name: str, args: tuple[Any, ...], made: Any) -> None:
        """What the laws want to know of a call that has happened."""
        if name in {"append", "consume"} and self.current:
            self._note_attempts(self.current, args, is_written=made is None)
        if name == "append" and '"kind":"undone"' in args[3] and self.current and self.current.undid:
            (call, is_done), self.current.undid = self.current.undid, None
            undid = _records_of(args, self.blobs)[-1][1].undid
            seen = self.seen_of[args[0]]
            seen.undo_given.setdefault((call.key, undid), []).append(call.input)
            seen.undo_done |= {undid} if is_done else set()
        if name == "put_event" and made:
            self.stored[args[0].topic, args[0].id] = len(self.stored)
        if name == "read_logs" and self.current:
            logs = {(args[0], token): [decode_records(one.body) for one in made.get(token, ())] for token in args[1]}
            found = {place: sum(map(len, bodies)) for place, bodies in logs.items()}
            self.current.read |= {place: count + self.current.lanes.get(place, 0) for place, count in found.items()}
        elif name == "read_join" and self.current and made.lanes:
            found = _in_lanes(args[0], made.lanes, self.blobs)
            self.current.lanes |= found
            self.current.read |= found
        elif name in {"append", "consume"} and made is None:
            for token, record in _records_of(args, self.blobs):
                self._written(args[0], token, record.slot)
            if '"kind":"joined"' in args[3] and self.current:
                read = {token: count for (run_id, token), count in self.current.read.items() if run_id == args[0]}
                self.seen_of[args[0]].joined_on[args[1], args[2]] = read

    def _note_attempts(self, actor: Actor, args: tuple[Any, ...], *, is_written: bool) -> None:
        """Under which wakes those attempts were made that this append tells of."""
        actor.is_behind |= not is_written
        for token, record in _records_of(args, self.blobs) if actor.ran else ():
            for call in actor.ran.pop(token, []) + actor.ran.pop(_UNDONE, []):
                self._ran(call, record.by)
                if is_written:
                    self.seen_of[call.run_id].committed[call.key, call.attempt] = self.written

    def _ran(self, call: Any, by: str) -> None:
        """An attempt was made under this wake, whichever message brought it: a shared one, or its own."""
        seen = self.seen_of[call.run_id]
        if _undoes(call):
            seen.undo_ran.setdefault((call.key, call.node, call.attempt), set()).add(by)
        else:
            entered = int(call.key.rsplit(":", 1)[1])
            seen.ran.setdefault((call.token, call.node, entered, call.attempt), set()).add(by)

    def looks(self, name: str) -> None:
        """A look into the mailbox reads one topic after the other: what comes meanwhile may be in it or not."""
        if self.current is None:
            return
        if name == "pending_events" and self.current.last_call != name:
            self.current.looked_at = len(self.stored)
        self.current.last_call = name

    def took(self, run_id: str, token: str, slot: int, topic: Topic, event_id: str) -> None:
        """An event was consumed into this slot."""
        looked_at = self.current.looked_at if self.current else -1
        known = self.stored[topic, event_id] if looked_at < 0 else looked_at
        taking = Taking(token, slot, topic, event_id, self.pending, self.now_ms, known)
        self.seen_of[run_id].takings.append(taking)

    def _written(self, run_id: str, token: str, slot: int) -> None:
        self.seen_of[run_id].order[token, slot] = self.written
        self.written += 1

    def repeat(self) -> None:
        """While a step runs, a copy of an old wake comes."""
        if self.main.takes_ms and len(self.actors) > MOST_BUSY:
            return  # each copy runs a step for a while, in which more copies come
        if self.chances.double and 1 < len(self.past) < MOST_REPEATED and self.rng.random() < self.chances.tempt:
            old = self.rng.choice(self.past)
            self.post(replace(old, at_ms=self.now_ms, deliveries=0))
            self.urgent.append(self.envelopes[-1])

    async def call(self, what: str, inner: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """One call to a port: stop, do, stop. The second stop may raise although the call has happened."""
        if await stop(what):
            raise PortError(f"{what} did not answer")
        made = await inner()
        if await stop(f"{what} done"):
            raise PortError(f"{what} happened, and nobody was told")
        return made


class _Stopping:
    """Any port, with a stop before and after each call."""

    def __init__(self, world: World, inner: Any) -> None:
        self._world, self._inner = world, inner

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._inner, name)
        world = self._world

        async def call(*args: Any, **named: Any) -> Any:
            if args == ("pause",) and not world.pauses_workflows:  # what is kept for seconds in a worker: no stop
                return await method(*args, **named)
            kind = "consume" if named.get("consumes") else name
            what = f"{kind}{_short(args)}" if world.tell else kind
            watch_call(world, kind)
            world.tempt(kind, args)
            world.hurry(kind, args)

            async def do() -> Any:
                world.looks(name)
                if kind == "consume":
                    world.pending = {topic: dict(events) for topic, events in world.memory._pending.items()}
                made = await method(*args, **named)
                if kind == "consume" and made is None:
                    world.took(*args[:3], *named["consumes"])
                world.note(kind, args, made)
                return made

            return await world.call(what, do)

        self.__dict__[name] = call
        return call


def _records_of(args: tuple[Any, ...], blobs: Blobs) -> list[tuple[str, Record]]:
    """The records of an append, with their tokens: one, or those of a lane's batch."""
    lane = split_lane(args[1])
    if lane is None:
        return [(args[1], record) for record in decode_records(args[3])]
    found = batch_of(args[3], lane[0], blobs).records
    return [(branch_id(lane[0], index), record) for index, record in found.items()]


def _undoes(call: Any) -> bool:
    return str(call.node).endswith(SUFFIX)


def _in_lanes(run_id: str, lanes: Mapping[str, Sequence[Saved]], blobs: Blobs) -> dict[tuple[str, str], int]:
    """How many records each branch has there."""
    found: Counter[tuple[str, str]] = Counter()
    for name, saved in lanes.items():
        fork = (split_lane(name) or ("", 0))[0]
        for one in saved:
            found.update((run_id, branch_id(fork, index)) for index in batch_of(one.body, fork, blobs).records)
    return dict(found)


def _short(args: tuple[Any, ...]) -> str:
    return f"({', '.join(str(arg)[:110] for arg in args)})"


class _Queue:
    """Queue and Timers: at least once, whenever the scheduler likes."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def send(self, lane: Lane, message: Mapping[str, Any], at_ms: int = 0) -> None:
        watch_call(self._world, "send")

        async def put() -> None:
            taken = self._world.current.envelope.body if self._world.current else None
            self._world.has_left |= message is taken
            self._world.post(Envelope(str(lane), message, at_ms or self._world.now_ms, is_left=message is taken))

        await self._world.call(f"send {lane}", put)

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Any]]) -> None:
        """One by one: whoever dies on the way has sent some."""
        for message in messages:
            await self.send(lane, message)

    async def set(self, name: str, lane: Lane, message: Mapping[str, Any], at_ms: int) -> None:
        watch_call(self._world, "set")

        async def put() -> None:
            if name not in self._world.timers:
                self._world.timers.add(name)
                self._world.post(Envelope(str(lane), message, at_ms))

        await self._world.call(f"timer {name}", put)


class _Clock:
    """Each actor's machine has its own idea of the time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        actor = self._world.current
        return self._world.now_ms + (actor.skew_ms if actor else 0)

    async def sleep_ms(self, duration_ms: int) -> None:
        await stop("sleep")


async def _pass_time(world: World, call: Any, takes_ms: int) -> None:
    """The step's own, in which others of its message may begin."""
    if not takes_ms or world.current is None:
        return
    actor, began_ms = world.current, world.now_ms
    actor.step = call.run_id, call.token
    if call.late is not None and call.late_ms < takes_ms:
        await _sleep_until(actor, began_ms + call.late_ms)
        await call.late()
    await _sleep_until(actor, began_ms + takes_ms)
    actor.step = "", ""


async def _sleep_until(actor: Actor, until_ms: int) -> None:
    actor.until_ms = until_ms
    await stop(f"step takes time until {(until_ms - START_MS) / 1000:.1f}s")


class _Steps:
    """Users' code: what it does is in the program, and who ran it is noted."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _sessions(self, logbook: Logbook) -> Sessions:
        """Of the process of whoever is at work; now and then it has begun anew."""
        world = self._world
        worker = world.current.worker if world.current else 0
        if world.fate.random() < getattr(world.main, "drops", 0):
            world.processes.reload(worker)
        return world.processes.of(worker, logbook)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._sessions(logbook).asked(at)

    async def answered(self, at: Standing, logbook: Logbook, name: str) -> Any:
        return await self._sessions(logbook).answered(at, name)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        return await self._sessions(logbook).updated(at, asked, write)

    async def run_in_session(self, call: Any, at: Standing, logbook: Logbook) -> Outcome | None:
        world = self._world
        worker = world.current.worker if world.current else 0

        async def attempted(function: Callable[[], object]) -> Outcome:
            """What the function says, between two stops, in which its session must not change."""
            outcome = await self.run(replace(call, input={}))
            return replace(outcome, value=copy_context().run(function)) if outcome.failure is None else outcome

        return await world.processes.of(worker, logbook).ran(at, call.node, attempted)

    def policy(self, step: Any) -> Any:
        policy = self._world.program.policy(step)  # no program has one of its own
        return replace(policy, stuck=CANNOT_IMPORT) if self._world.processes.code.is_broken else policy

    async def run(self, call: Any) -> Outcome:
        world = self._world
        world.repeat()
        await stop(f"step {call.node} attempt {call.attempt}")
        actor = world.current
        program = world.programs[call.workflow]
        if world.processes.code.is_broken:
            return Outcome(failure=CANNOT_IMPORT, is_stuck=True)
        if not _undoes(call):
            world.seen_of[call.run_id].given.setdefault((call.key, call.attempt), []).append(call.input)
            watch_begin(world, call)
        if actor:
            actor.is_behind = False
        await _pass_time(world, call, took_ms := world.main.duration_ms(call))
        watch_end(world, call, took_ms)
        outcome = program.outcome(call, world.now_ms, world.seen)
        await self._emit(call, actor.worker if actor else 0)
        if actor and not (actor.is_behind and call.late is not None):
            actor.ran.setdefault(_UNDONE if _undoes(call) else call.token, []).append(call)
            actor.undid = (call, outcome.failure is None and outcome.pause is None) if _undoes(call) else None
        await stop(f"step {call.node} done")
        return outcome

    async def _emit(self, call: Any, worker: int) -> None:
        """Live output; what cannot be written is dropped."""
        outputs = self._world.outputs[worker]
        output = Output(outputs, call.run_id, call.token, call)
        for number in range(self._world.main.emits):
            told = output.told({"piece": [call.key, number]})
            with suppress(PortError):
                await outputs.put(call.run_id, told)
                self._world.seen_of[call.run_id].emitted.append(told)

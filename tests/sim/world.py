"""The world of one schedule: ports that stop at every call, messages that come twice and late, a clock that jumps.

An actor is a coroutine that handles one message. It stops before and after each call to a port; there the scheduler
may run another actor, kill this one, or let it see an error after the call has happened.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from stepwell.engine.records import Topic
from stepwell.limits import FORKS_KEPT
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.loop.outputs import Outputs
from stepwell.runtime.ports import Blobs, Event, Ports
from tests.sim.actors import START_MS, Actor, Envelope
from tests.sim.fn_programs import workers_of
from tests.sim.ports import SkewedClock, StoppingPort, StoppingQueue
from tests.sim.programs import Program, expression
from tests.sim.seen import Seen
from tests.sim.steps import Steps
from tests.sim.tree import RUN, Logs
from tests.sim.versions import Deploy


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
    no_time: float = 0.1  # how often one that hands over has no time for another step
    zombies: float = 0.0  # how often one dies at a stop
    dies_late: bool = False  # only once it has appended
    stalls: float = 0.0  # how often a client does nothing for a while, in the midst of its call


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
        self.awaited: list[Mapping[str, Any]] = []  # calls that wait for a phase of the run's root
        self.mended_by = 0  # the call by which broken code is mended; 0: it is not broken
        self.wanted: list[Topic] = []  # what the wait that is being registered wants
        self.past: list[Envelope] = []  # wakes that were delivered
        self.urgent: list[Envelope] = []  # to be delivered before others
        self.actors: list[Actor] = []
        self.busy_until_ms = 0  # the end of the last of the steps that take time
        self.current: Actor | None = None
        self.turns_left = 0
        self.counts_wakes = False  # timelines, forks and DAGs: one event at a time ends a wait there
        self.wakes: Counter[str] = Counter()  # how often each was sent, where the law of counts holds
        self.wakers: defaultdict[str, set[str]] = defaultdict(set)  # the call or event that sent it; "": a worker
        self.calls = self.sent = self.tempted = self.written = 0
        self.snagged: Counter[int] = Counter()  # how often somebody was held up at each of the program's snags
        self.stalled = self.futile = 0  # clients that were held up in a call, and runs that were made for no start
        self.has_left = False  # old code has left a message to newer code, in the midst of its work
        self.mended_at = 0  # records of the world, when code was last deployed that can be imported
        self.seen_of: dict[str, Seen] = defaultdict(Seen)
        self.seen = self.seen_of[RUN]
        self.chances = self._chances()
        self.memory, self.blobs, self.lane = MemoryStore(), MemoryBlobs(), lane
        self.pauses_workflows = any(one[0] == "stop" for one in program.calls) or any(
            one["type"] == "stop" for one in program.asks
        )
        self.timers: set[str] = set()
        self.turns: dict[str, dict[str, int]] = defaultdict(dict)  # by rate limit: the claimants' turns to come
        self.takers: dict[str, Actor] = {}  # who took each run up, where messages are late
        self.taken_up: set[str] = set()  # runs that were not paused then
        self.has_lost = False  # the message of a start, which nobody sends
        self.gone: dict[str, int] = {}  # deleted runs -> until when their ids are held
        self.erasing: set[str] = set()  # runs whose logs are being deleted, or were
        self.wrong: list[str] = []  # laws that were broken while the schedule was played
        self.reborn: set[str] = set()  # deleted runs whose ids other runs have now
        self.logs_of = {RUN: Logs(self.memory, self.blobs)}
        self.logs = self.logs_of[RUN]
        self.warm = FORKS_KEPT if seed % 2 else 0  # one process that keeps what it has read, or many that are cold
        self.processes = workers_of(program)
        self.fate = random.Random(f"processes {seed}")  # of its own: who works on what changes nothing else
        self.deploy = deploy
        self.catalogs: list[Catalog] = []  # of new code, and of old code
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
        store, blobs = StoppingPort(self, self.memory), cast("Blobs", StoppingPort(self, self.blobs))
        ports = Ports(
            store, store, store, store, store, store, StoppingQueue(self), StoppingQueue(self), blobs, SkewedClock(self)
        )
        self.outputs = defaultdict[int, Outputs](lambda: Outputs(ports.mailbox, ports.clock))  # by worker
        catalog = Catalog(
            lambda document: self.program.graph, [one.graph for one in self.programs.values()], self.program.limits
        )
        self.catalogs.append(catalog)
        return assemble(
            ports,
            catalog,
            Steps(self),
            compile_expression=expression,
            new_id=lambda: f"{self.rng.getrandbits(40):x}",
            jitter=self.rng.random,
            snapshot_records=self.rng.choice([2, 5, 200]),
            forks_kept=self.warm,
            long_log_records=1,
            lane=lane,
        )

    def of(self, run_id: str) -> World:
        """This world as the laws of one run see it, as it is now."""
        if run_id == self.run_id:
            return self
        seen = copy.copy(self.seen_of[run_id])
        seen.crashes = self.seen.crashes
        logs = self.logs_of.setdefault(run_id, Logs(self.memory, self.blobs, run_id))
        view = copy.copy(self)
        view.run_id, view.program = run_id, self.programs[self.memory._runs[run_id].workflow]
        view.seen, view.logs = seen, logs
        return view

    def runs(self) -> list[World]:
        """This world as each of its runs sees it."""
        main = [] if RUN in self.gone else [self]
        return [*main, *(self.of(run_id) for run_id in self.memory._runs if run_id != RUN)]

    @property
    def born_ms(self) -> int:
        """When the run was made that has a deleted run's id; 0 for any other."""
        return self.memory._runs[self.run_id].created_ms if self.run_id in self.reborn else 0

    def awake(self) -> list[Actor]:
        """Those who are not in the midst of a step that takes time."""
        if self.now_ms >= self.busy_until_ms:
            return self.actors
        return [actor for actor in self.actors if actor.until_ms <= self.now_ms]

    def due(self) -> list[Envelope]:
        """The messages whose time has come."""
        return [envelope for envelope in self.envelopes if envelope.at_ms <= self.now_ms]

    def say(self, text: str) -> None:
        if self.tell:
            self.tell(f"{(self.now_ms - START_MS) / 1000:10.1f}s  {text}")

    def post(self, envelope: Envelope) -> None:
        self.sent += 1
        envelope.number = self.sent
        self.envelopes.append(envelope)
        if envelope.body.get("type") == "end_run" and self.chances.tempt and self.rng.random() < 0.8:
            self.urgent.append(envelope)  # before whoever is about to start that run
        if self.tell:
            self.say(f"    + {envelope} at {max(envelope.at_ms - START_MS, 0) / 1000:.1f}s")

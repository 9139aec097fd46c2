"""One simulated run: the production engine in memory, whose steps only let time pass and whose waits chance answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import ROOT, Arm, End, Failure, Goto, Kind, Parked, Record, Status, Topic
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.waits.approval import asks_several, has_votes
from stepwell.engine.waits.code import is_for_code
from stepwell.errors import Conflict, StepwellError
from stepwell.limits import FORK_WIDTH
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Delivery
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import assemble
from stepwell.runtime.calls.ledger import Cost
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import Pause, run_now, run_to_pause
from stepwell.runtime.loop.sharing import Sharing
from stepwell.runtime.ports import Appended, Event, EventRef, Lane, Ports, Writes
from stepwell.runtime.ports.headers import StatusChange
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.steps.port import StepCall, Steps, Updated, WriteRecord
from stepwell.simulation.assumptions import Assumptions
from stepwell.simulation.guessing import Luck

START_MS = 1_893_488_400_000  # a Tuesday morning
MOST_MOVES = 5_000  # of one run: more mean that it has no end
BRANCH_MOVES = 20  # more for each branch, and for each child run
_LEASE_MS = 10**15
_ANSWERED = frozenset({"approval", "callback", "event"})  # callbacks: of steps, whose waits stand as they are
_COMPENSATION = ".compensate"
UNREAD = "node "  # begins the names of nodes, among what was assumed, whose expressions could not be evaluated

Compile = Callable[[str], Any]


@dataclass
class Played:
    """What came of one run. `nodes` and `rules`: how often each was left or taken."""

    status: str = "open"
    error: Failure | None = None
    duration_ms: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    timeouts: Counter[str] = field(default_factory=Counter)
    cost: Cost | None = None
    is_cut: bool = False  # the time for the simulation was up
    stuck: Mapping[str, Any] | None = None  # the error of a function's code that no worker can go on with


class SimulatedSteps:
    """Steps that take time, fail and return as assumed. Their code is not called; a durable function's own is."""

    def __init__(self, given: Assumptions, luck: Luck, functions: Steps | None,
                 defaults: Callable[[str], StepDefaults]) -> None:  # fmt: skip
        self._given, self._luck, self._functions, self._defaults = given, luck, functions, defaults

    def policy(self, step: Step) -> Policy:
        """The definition's options over the function's own, as far as these are known."""
        return resolve_policy(step, self._defaults(step.run))

    async def run(self, call: StepCall) -> Outcome:
        """Lets the attempt's time pass."""
        node, rng = (call.shown or call.node).removesuffix(_COMPENSATION), self._luck.rng
        self._luck.met.update((call.node, node))
        guess = self._given.steps.get(call.node) or self._given.step(node)
        is_late = rng.random() < guess.times_out
        takes_ms = call.timeout_ms if is_late else guess.takes.draw(rng)
        if takes_ms and call.late is not None:
            await call.late()
        if takes_ms:
            await Pause(min(takes_ms, call.timeout_ms))
        if takes_ms >= call.timeout_ms:
            message = f"{call.node} took longer than {call.timeout_ms / 1000:g} s"
            return Outcome(failure=Failure("step_timeout", "timeout", message, call.node, call.attempt))
        if rng.random() < guess.fails:
            return Outcome(failure=Failure(guess.error, guess.category, "simulated", call.node, call.attempt))
        return Outcome(value=guess.returns)

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        """What a function gives to `ctx.run` is not called either."""
        return await self.run(call)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        """The token with its function's turn: this runs the function's own code."""
        if self._functions is None:
            raise Conflict("a durable function is simulated where its code is", code="no_code")
        return await self._functions.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        """Nobody asks."""
        raise Conflict("a simulation answers no queries", code="no_code")

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        """Nobody asks."""
        return None


class _Watched(MemoryStore):
    """The store in memory, which tells of each record and of the run's end."""

    def __init__(self, told: Callable[[str, str, Record], None], run_id: str, blobs: MemoryBlobs) -> None:
        super().__init__()
        self._told, self._run_id, self._blobs, self.ended_ms = told, run_id, blobs, -1

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        refused = await super().append(run_id, token, slot, body, consumes=consumes, also=also)
        if refused is None:
            for record in decode_records(await fetch(body, self._blobs)):
                self._told(run_id, token, record)
        return refused

    async def change_status(self, change: StatusChange) -> bool:
        is_changed = await super().change_status(change)
        if is_changed and change.run_id == self._run_id and change.status.terminal:
            self.ended_ms = change.ended_ms
        return is_changed


class Play:
    """Plays one run to its end."""

    def __init__(self, catalog: Catalog, steps: Steps, given: Assumptions, luck: Luck, compile_expression: Compile,
                 run_id: str) -> None:  # fmt: skip
        self._given, self._luck, self._run_id = given, luck, run_id
        self._clock = VirtualClock(START_MS)
        self._queue = MemoryQueue(self._clock)
        blobs = MemoryBlobs()
        self._store = store = _Watched(self._told, run_id, blobs)
        self._numbers = count()
        self._parts = assemble(
            Ports(store, store, store, store, store, store, self._queue, self._queue, blobs, self._clock),
            catalog,
            steps,
            compile_expression=compile_expression,
            new_id=lambda: f"{next(self._numbers)}",
            jitter=luck.rng.random,
            sharing=Sharing(step_ms=0),
        )
        self._under_way: list[tuple[int, int, Coroutine[Any, Any, None], Delivery]] = []
        self._approvals: list[tuple[int, int, str, str, tuple[str, ...], bool, Json]] = []
        self._node = ""  # where the root is
        self._tokens = set[tuple[str, str]]()  # of all its runs
        self.played = Played()

    def play(self, workflow: str, given: Json, *, with_cost: bool, is_late: Callable[[], bool]) -> Played:
        """Starts the run, and handles what is due until it has ended, or waits for ever. `is_late`: the time is up."""
        run_now(self._parts.service.start(Start(workflow, given, run_id=self._run_id)))
        try:
            for moves in count():
                has_ended = self._store.ended_ms >= 0 or self.played.stuck is not None
                if has_ended or moves >= self._most_moves() or not self._move():
                    break
                if is_late():
                    self.played.is_cut = True
                    break
        except StepwellError as error:  # of a function's own code, say: the run stays where it is
            self.played.error = Failure(error.code, "simulation", error.message)
        if self._store.ended_ms >= 0:
            self.played.duration_ms = self._store.ended_ms - START_MS
        if with_cost and not self.played.is_cut:
            service = self._parts.service
            _, self.played.cost = run_now(service.surveyed_with_cost(run_now(service.standing(self._run_id))))
        for _, _, work, _ in self._under_way:
            work.close()
        return self.played

    def _most_moves(self) -> int:
        return MOST_MOVES + BRANCH_MOVES * min(len(self._tokens), FORK_WIDTH)

    def _move(self) -> bool:
        """Does what is due next. Returns False where nothing will be."""
        now_ms = self._clock.now_ms()
        delivery = self._queue.receive(tuple(Lane), now_ms, _LEASE_MS)
        if delivery is not None:
            budget = Unlimited(delivery.deliveries)
            self._go_on(dispatch(self._parts, delivery.lane, delivery.message, budget), delivery)
            return True
        times = [heap[0][0] for heap in (self._under_way, self._approvals) if heap]
        due_ms = self._queue.next_due_ms()
        if due_ms is not None and due_ms < START_MS + _LEASE_MS // 2:
            times.append(due_ms)
        if not times:
            return False
        self._clock.set(max(min(times), now_ms))
        if self._under_way and self._under_way[0][0] <= self._clock.now_ms():
            _, _, work, held = heappop(self._under_way)
            self._go_on(work, held)
        elif self._approvals and self._approvals[0][0] <= self._clock.now_ms():
            self._answer()
        return True

    def _go_on(self, work: Coroutine[Any, Any, None], delivery: Delivery) -> None:
        found = run_to_pause(work)
        if isinstance(found, Pause):
            heappush(self._under_way, (self._clock.now_ms() + found.duration_ms, next(self._numbers), work, delivery))
        else:
            self._queue.delete(delivery)

    def _answer(self) -> None:
        _, _, run_id, wait, voters, is_no, data = heappop(self._approvals)
        service = self._parts.service
        for by in voters:
            try:
                if is_no:
                    run_now(service.reject(run_id, "simulated", by, wait))
                else:
                    run_now(service.approve(run_id, data, by, wait))
            except Conflict:
                return  # it was over before

    def _told(self, run_id: str, token: str, record: Record) -> None:
        """Counts where a record leads, and has a wait answered."""
        played, mine = self.played, run_id == self._run_id
        self._tokens.add((run_id, token))
        if mine:
            played.rules.update(record.rules)
            if record.node:
                played.nodes[record.node] += 1
            if record.resumption is not None and record.resumption.kind == "timeout":
                played.timeouts[record.node] += 1
            if token == ROOT:
                self._told_of_root(record)
        for error in (record.error, record.next.error if isinstance(record.next, End) else None):
            if error is not None and error.category == "validation":
                told = f"fails, because what it reads is not there: {error.message}"
                self._luck.assumed.setdefault(f"{UNREAD}{error.step or record.node}", told)
        if is_for_code(record) and record.parked is not None:
            played.stuck = record.parked.data  # nobody deploys other code meanwhile
        elif record.kind is Kind.WAITING and record.parked is not None:
            self._expect(run_id, token, record, record.parked)

    def _told_of_root(self, record: Record) -> None:
        """Notes how the run ends, and at which node if its error names none."""
        if isinstance(record.next, End):
            error = record.next.error or record.error
            self.played.status = record.next.status.value
            if error is not None and record.next.status is not Status.COMPLETED:
                self.played.error = replace(error, step=error.step or self._node)
        elif isinstance(record.next, Goto):
            self._node = record.next.node

    def _expect(self, run_id: str, token: str, record: Record, parked: Parked) -> None:
        """Decides when the outside answers each arm of a wait."""
        guess, rng = self._given.wait(record.node), self._luck.rng
        self._luck.met.add(record.node)
        for arm in parked.arms:
            if arm.kind not in _ANSWERED:
                continue
            if not guess.is_given:
                self._luck.assumed.setdefault(f"wait {record.node}", "answered after 1 minute, always")
            if rng.random() < guess.never:
                continue
            at_ms = self._clock.now_ms() + guess.after.draw(rng)
            if arm.kind == "approval":
                is_no = rng.random() < guess.rejects
                wait = ("" if token == ROOT else token) + (f"/{arm.name}" if asks_several(parked) else "")
                voters = _voters(arm, is_no=is_no)
                heappush(self._approvals, (at_ms, next(self._numbers), run_id, wait, voters, is_no, guess.data))
            else:
                payload = {"body": guess.data} if arm.kind == "callback" else guess.data
                self._send(Topic(arm.topics[-1].name, arm.topics[-1].key), payload, at_ms)

    def _send(self, topic: Topic, payload: Json, at_ms: int) -> None:
        event = Event(topic, f"e{next(self._numbers)}", payload, at_ms, at_ms + 10**12)
        run_now(self._queue.send(Lane.RESUME, to_json(Publish(event)), at_ms))


def _voters(arm: Arm, *, is_no: bool) -> tuple[str, ...]:
    """Returns who decide an approval: as many of the named ones as must agree, or as make that impossible."""
    if not has_votes(arm):
        return ("",)
    if not arm.parts:
        return tuple(f"approver-{number}" for number in range(1, arm.need + 1))
    return arm.parts[arm.need - 1 :] if is_no else arm.parts[: arm.need]


def seeded(luck: Luck, seed: int, number: int) -> None:
    """Begins the chance of one run anew, so that each run is the same whatever ran before."""
    luck.rng = random.Random(f"{seed} {number}")  # noqa: S311  a simulation's

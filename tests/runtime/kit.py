"""The runtime over plain memory: a store that counts, steps as functions, messages delivered when the test says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph, Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure, Record
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.engine.token import Token
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.log.door import Budget, Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.steps.port import StepCall, Updated, WriteRecord
from stepwell.runtime.stores.clocks import RealClock
from stepwell.testing.backend import ports_of

NOW_MS = 1_700_000_000_000
FLOW = "workflow: flow\ntimeline: [{name: a, run: python:m.a, RETRY}, {name: b, run: python:m.b}]"
PLAIN = FLOW.replace("RETRY", "timeout: 1m")
ONCE = FLOW.replace("RETRY", "at_most_once: true")
WRITES = {
    "create_run", "change_status", "append", "save_snapshot", "arrive", "put_event", "put_waiter", "forget_waiter",
    "consume", "put_definition",
}  # fmt: skip


def operation(name: str, named: Mapping[str, Any]) -> str:
    """A call's name; an append by what it does beside: it consumes an event, or comes with the user's writes."""
    return "consume" if named.get("consumes") else "append_with" if named.get("also") else name


class CountingStore:
    """Any store, its calls counted. `before` runs ahead of a call: another actor comes first, or the caller dies."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.records_read = 0  # to fold a token
        self.records_told = 0  # for the history
        self.before: dict[str, Callable[..., object]] = {}

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self.inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            kind = operation(name, named)
            if kind in self.before:
                self.before.pop(kind)(*args)
            self.calls[kind] += 1
            made = await method(*args, **named)
            if name == "read_log":
                self.records_told += len(made)
            if name == "load":
                self.records_read += len(made.records) + (made.snapshot is not None)
            return made

        return call

    @property
    def writes(self) -> Counter[str]:
        return Counter({name: n for name, n in self.calls.items() if name in WRITES})


class PlainSteps:
    """What Steps are beside `run`, without durable functions."""

    def policy(self, step: Step) -> Policy:
        return resolve_policy(step, StepDefaults())

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        raise NotImplementedError

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        raise NotImplementedError

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        raise NotImplementedError

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        raise NotImplementedError


class Functions(PlainSteps):
    """Steps by the name of their node; one that is not named returns its node's name."""

    def __init__(self) -> None:
        self.of: dict[str, Callable[[StepCall], Json]] = {}
        self.calls: list[StepCall] = []

    async def run(self, call: StepCall) -> Outcome:
        self.calls.append(call)
        made = self.of[call.node](call) if call.node in self.of else call.node
        return made if isinstance(made, Outcome) else Outcome(made)


def fails(kind: str = "Broken", category: str = "step") -> Outcome:
    return Outcome(failure=Failure(kind, category, "no luck"))


class World:
    """One Stepwell whose messages lie still until they are delivered."""

    def __init__(self, *definitions: str, **options: Any) -> None:
        """`options` are those of `assemble`: max_steps, pool."""
        self.clock = VirtualClock(NOW_MS)
        self.store, self.queue, self.steps = CountingStore(MemoryStore()), MemoryQueue(self.clock), Functions()
        self.blobs = MemoryBlobs()
        self.handled: Counter[str] = Counter()  # messages, by their bodies
        numbers = count(1)
        self.catalog = Catalog(partial(compile_document, trusted=True), [graph_of(text) for text in definitions])
        self.parts = assemble(
            ports_of(self.store, self.queue, self.clock, blobs=self.blobs),
            self.catalog,
            self.steps,
            compile_expression=compile_expression,
            new_id=lambda: f"{next(numbers):04d}",
            jitter=lambda: 0.5,
            **options,
        )
        self.service, self.sweeper = self.parts.service, self.parts.sweeper

    def start(self, workflow: str = "flow", given: Json = None, **options: Any) -> str:
        return run_now(self.service.start(Start(workflow, given, **options))).header.run_id

    def deliver(self, budget: Budget | None = None) -> int:
        """Everything that is due. Returns how many messages there were."""
        handled = 0
        while (one := self.queue.receive(ALL_LANES, self.clock.now_ms(), 60_000)) is not None:
            run_now(dispatch(self.parts, one.lane, one.message, budget or Unlimited(one.deliveries)))
            self.queue.delete(one)
            handled += 1
        return handled

    def pass_time(self, duration_ms: int) -> None:
        until_ms = self.clock.now_ms() + duration_ms
        self.deliver()
        while (due_ms := self.queue.next_due_ms()) is not None and due_ms <= until_ms:
            self.clock.set(due_ms)
            self.deliver()
        self.clock.set(until_ms)

    def lose_messages(self) -> int:
        """Whoever should have sent them died."""
        lost = 0
        while (one := self.queue.receive(ALL_LANES, 10**15, 0)) is not None:
            self.queue.delete(one)
            lost += 1
        return lost

    def token(self, run_id: str) -> Token:
        return run_now(self.service.standing(run_id)).token

    def header(self, run_id: str) -> Header:
        return run_now(self.service.header(run_id))

    def send(self, lane: Lane, message: Json) -> None:
        run_now(self.queue.send(lane, message))


@cache
def graph_of(text: str) -> Graph:
    compiled = compile_definition(text, "flow.yaml")
    assert compiled.graph is not None, compiled.problems
    return compiled.graph


class Folder:
    """A workflow folder with modules, and the real executor over it."""

    def __init__(self, path: Path, **modules: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        for name, source in modules.items():
            self.write(name, source)
        self.steps = FunctionSteps(path, RealClock())

    def write(self, name: str, source: str) -> None:
        file = self.path / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)

    def run(self, path: str, given: Json = None, **changes: Any) -> Outcome:
        """One attempt of `module.function`."""
        return self.run_named(f"python:{path}", given, **changes)

    def run_named(self, run: str, given: Json = None, **changes: Any) -> Outcome:
        values: dict[str, Any] = {
            "run": run, "input": given, "run_id": "r1", "workflow": "w", "token": "0",
            "node": "n", "attempt": 1, "key": "r1:0:0", "timeout_ms": 5_000, "resumed": None, "read_state": dict,
        }  # fmt: skip
        return run_now(self.steps.run(StepCall(**{**values, **changes})))


def first_wake(world: World) -> dict[str, Any]:
    """The message that makes the run begin, taken off the queue."""
    one = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 0)
    assert one is not None
    world.queue.delete(one)
    return dict(one.message)


def handle(world: World, body: dict[str, Any], budget: Any = None) -> None:
    """Delivers a message that was taken off the queue, or delivers it once more."""
    world.handled[json.dumps(body)] += 1
    run_now(dispatch(world.parts, Lane.WORK, body, budget or Unlimited(world.handled[json.dumps(body)])))

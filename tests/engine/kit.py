"""A token pushed by hand: real definitions, no ports, outcomes that the test names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import Action, Outcome, Rest, RunStep, Write
from stepwell.engine.attempts import commit
from stepwell.engine.decide import decide
from stepwell.engine.fold import apply
from stepwell.engine.names import Moment
from stepwell.engine.records import Failure, Goto, Kind, Pause, Record, Resumption, RunInfo, Status
from stepwell.engine.retry import resolve_policy
from stepwell.engine.token import Token
from stepwell.engine.writing import ended_record

NOW_MS = 1_700_000_000_000


@cache
def graph_of(text: str) -> Graph:
    """The graph of a definition without errors."""
    compiled = compile_definition(text, "flow.yaml")
    assert compiled.graph is not None, compiled.problems
    return compiled.graph


def failure(kind: str = "Broken", category: str = "step", **parts: Any) -> Failure:
    return Failure(kind, category, parts.pop("message", "no luck"), **parts)


@dataclass
class Play:
    """One run without a world: what it does next is decided, what comes of it is said by the test."""

    graph: Graph
    input: Json = None
    now_ms: int = NOW_MS
    jitter: float = 0.0
    token: Token = field(default_factory=Token)
    idle: bool = False
    start_at_ms: int = 0
    log: list[Record] = field(default_factory=list)

    @property
    def run(self) -> RunInfo:
        return RunInfo(
            "r1", self.graph.name, self.graph.version, self.input, NOW_MS, NOW_MS, self.idle, self.start_at_ms
        )

    @property
    def moment(self) -> Moment:
        return Moment(self.graph, self.run, self.now_ms, "wake:0:-1", self.jitter)

    @property
    def last(self) -> Record:
        return self.log[-1]

    @property
    def status(self) -> Status | None:
        return self.token.end.status if self.token.end else None

    @property
    def error(self) -> Failure | None:
        return self.token.end.error if self.token.end else None

    def decide(self) -> Action:
        return decide(self.moment, self.token)

    def asked(self) -> RunStep:
        """The step that is next; records that need no user code are written on the way."""
        while isinstance(action := self.decide(), Write):
            self.append(action.record)
        assert isinstance(action, RunStep), action
        return action

    def append(self, record: Record) -> Record:
        self.token = apply(self.token, record)
        self.log.append(record)
        return record

    def settle(self) -> Play:
        """Everything that needs no user code."""
        while isinstance(action := self.decide(), Write):
            self.append(action.record)
        return self

    def ends(
        self,
        value: Json = None,
        *,
        failure: Failure | None = None,
        pause: Pause | None = None,
        defaults: StepDefaults | None = None,
    ) -> Record:
        """The step that is next ends so. Returns its record; what needs no code is left for the next call."""
        action = self.asked()
        if failure is not None:
            failure = replace(failure, step=action.node, attempts=action.attempt)
        policy = resolve_policy(action.step, defaults or StepDefaults())
        outcome = Outcome(value, pause, failure, self.now_ms)
        return self.append(commit(self.moment, self.token, action, outcome, policy))

    def came(self, kind: str, payload: Json = None, *, arm: int = 0, by: str = "", name: str = "") -> Play:
        """What the token waits for has come, or its time is up."""
        self.settle()
        assert self.token.parked is not None
        came = Resumption(kind, arm, name, payload, "e1" if kind == "event" else "", by)
        self.append(Record(self.token.next_slot, Kind.RESUMED, "x", self.now_ms, self.token.node, resumption=came))
        return self

    def times_out(self) -> Play:
        self.settle()
        assert self.token.parked is not None
        assert self.token.parked.until_ms is not None
        self.now_ms = max(self.now_ms, self.token.parked.until_ms)
        return self.came(
            "timeout" if self.token.parked.timer_arm is None else "timer", arm=self.token.parked.timer_arm or 0
        )

    def rests_until(self) -> int | None:
        action = self.decide()
        assert isinstance(action, Rest), action
        return action.until_ms

    def ended_by(self, status: Status, error: Failure | None = None) -> Record:
        return self.append(ended_record(self.moment, self.token, status, error))

    def went_to(self) -> str:
        """The node that the last record sent the token to."""
        assert isinstance(self.last.next, Goto), self.last.next
        return self.last.next.node


def play(text: str, given: Json = None, **options: Any) -> Play:
    return Play(graph_of(text), given, **options)

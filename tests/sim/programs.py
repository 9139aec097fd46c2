"""Random workflows for the simulator: every kind of node, rule, wait and step that the engine knows, put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.cel.values import Items
from stepwell.definition.graph import END, Graph, Limit, Node, Retry, Rule, Step, Wait
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure, Pause
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.errors import ExpressionError, PortError

if TYPE_CHECKING:
    from tests.sim.backlog_programs import Backlog
    from tests.sim.snags import Snag

TOPICS = ("a", "b")
SUFFIX = ".compensate"  # of a node's name, where its compensation is called


@dataclass(frozen=True)
class Simple:
    """An expression without CEL: a Python function of the names, quick enough for a million schedules."""

    text: str
    function: Callable[[Mapping[str, Any]], Any]
    names: frozenset[str] = frozenset()
    reads_error: bool = False

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        try:
            return self.function(names)
        except (KeyError, TypeError, AttributeError) as error:
            raise ExpressionError(str(error)) from error

    def items(self, names: Mapping[str, Any]) -> Sequence[Any]:
        return Items(self.evaluate(names))


ERROR = Simple("error", lambda names: names["error"]["type"] == "Flaky", frozenset({"error"}), True)
IS_EVEN = Simple("even", lambda names: names["event"]["n"] % 2 == 0, frozenset({"event"}))
BAD = Simple("bad", lambda names: names["state"]["not there"], frozenset({"state"}))
KEY = Simple("key", lambda names: names["input"]["key"], frozenset({"input"}))


def expression(text: str) -> Simple:
    """What `match` compiles to."""
    return {"even": IS_EVEN, "event.n % 2 == 0": IS_EVEN, "bad": BAD}[text]


@dataclass(frozen=True)
class Undoing:
    """What compensations do, by node. One that is not named here does what it is asked for at once."""

    flaky: Mapping[str, int] = field(default_factory=dict)  # tries that fail before one succeeds
    failing: frozenset[str] = frozenset()
    deadly: frozenset[str] = frozenset()  # each try kills its worker
    waiting: frozenset[str] = frozenset()  # asks for a wait, which a compensation cannot
    broken: frozenset[str] = frozenset()  # nodes whose step fails, so that there is something to undo

    def outcome(self, call: Any, now_ms: int) -> Outcome:
        """Of a try of a compensation. Raises PortError where the worker dies of it."""
        node = call.node.removesuffix(SUFFIX)
        if node in self.deadly:
            raise PortError(f"{call.node} killed its worker")
        if node in self.waiting:
            return Outcome(pause=Pause("sleep", timeout_ms=1_000), started_ms=now_ms)
        if node in self.failing or call.attempt <= self.flaky.get(node, 0):
            return Outcome(failure=Failure("Stuck", "step", "not yet", node, call.attempt), started_ms=now_ms)
        return Outcome(value={"undone": node}, started_ms=now_ms)


@dataclass(frozen=True)
class Program:
    """A workflow, what its steps do, and what the world does to its run."""

    graph: Graph
    flaky: Mapping[str, int]  # node -> attempts that fail before one succeeds, in each visit
    directives: Mapping[str, Pause]
    blocked: frozenset[str]
    events: tuple[tuple[str, str, int], ...]  # (topic, id, n)
    calls: tuple[tuple[str, int], ...]  # (operation, after seconds)
    idle: bool = False  # only created, and begun by a call of its own
    start_after_ms: int = 0
    input: Mapping[str, Any] = field(default_factory=lambda: {"key": "k"})
    failing: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # node -> branches (every, from) that fail
    page: int = 0  # branches of a page, where it is not as always
    chunk: int = 0  # branches that one message wakes, where they are not as many as always
    voters: tuple[str, ...] = ()  # who approves and rejects, where it matters who
    callees: tuple[Program, ...] = ()  # the workflows that its runs can start
    undoing: Undoing | None = None  # None: no step has a compensation
    deploys: tuple[tuple[str, int], ...] = ()  # (patch | reload | break | mend, after so many calls)
    takes_ms: tuple[int, ...] = ()  # how long steps take, one of these each; none: no time at all
    limits: Mapping[str, Limit] = field(default_factory=dict)  # the named ones
    asks: tuple[Mapping[str, Any], ...] = ()  # of clients, of a durable function; `after_s`: when
    emits: int = 0  # pieces of live output of each try of a step
    snags: tuple[Snag, ...] = ()  # at which calls who is held up
    backlog: Backlog | None = None  # how short invocations are, and how late their messages
    repeats: bool = False  # whether clients make each call again, in a world where else nothing comes twice
    race: str = ""  # when the one event is sent that its one wait is for

    @property
    def forks(self) -> bool:
        nodes = self.graph.nodes.values()
        return any(node.fan_out == "all" or any(rule.foreach for rule in node.rules) for node in nodes)

    @property
    def is_saga(self) -> bool:
        """Whether it was made to be undone."""
        return self.undoing is not None and "s2" in self.undoing.broken

    @property
    def breaks(self) -> bool:
        """Whether its code may be gone for a while: one copy of a message parks for it then, another can run."""
        return "break" in {*(act for act, _ in self.deploys), *(ask["type"] for ask in self.asks)}

    @property
    def is_paused(self) -> bool:
        """Whether its run may be paused, so that a copy of a wake that rested comes once others were woken."""
        return any(ask["type"] in ("pause", "stop") for ask in self.asks)

    @property
    def is_erased(self) -> bool:
        """Whether its run may be deleted, so that a copy of a wake comes once another run has its id."""
        return any(ask["type"] == "erase" for ask in self.asks)

    @property
    def takes_time(self) -> bool:
        return bool(self.takes_ms)

    @property
    def is_patched(self) -> bool:
        """Whether other code may be deployed while its runs are under way."""
        return "patch" in {*(act for act, _ in self.deploys), *(ask["type"] for ask in self.asks)}

    @property
    def is_dag(self) -> bool:
        return bool(self.graph.dependencies)

    def duration_ms(self, call: Any) -> int:
        """The time that a step takes, the same in every try."""
        return random.Random(f"{call.token} {call.node}").choice(self.takes_ms) if self.takes_ms else 0

    def policy(self, step: Step) -> Policy:
        return resolve_policy(step, StepDefaults())

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        """A function of the call alone, as a deterministic step would be."""
        if self.undoing is not None and call.node.endswith(SUFFIX):
            return self.undoing.outcome(call, now_ms)
        once = self.graph.nodes[call.node].step
        if once is not None and once.at_most_once:
            key = f"{call.key}.{call.attempt}"
            seen.once[key] = seen.once.get(key, 0) + 1
        if call.node in self.blocked and call.resumed is None:
            return Outcome(failure=Failure("Blocked", "governance", "ask first", call.node), started_ms=now_ms)
        if self._fails(call) or (self.undoing is not None and call.node in self.undoing.broken):
            return Outcome(failure=Failure("Flaky", "step", "never", call.node, call.attempt), started_ms=now_ms)
        if call.attempt <= self.flaky.get(call.node, 0):
            category = "transient" if call.attempt % 2 else "step"
            return Outcome(failure=Failure("Flaky", category, "again", call.node, call.attempt), started_ms=now_ms)
        if call.node in self.directives and call.resumed is None:
            return Outcome(pause=self.directives[call.node], started_ms=now_ms)
        given = {"given": call.input} if self.is_dag else {}
        value = {"node": call.node, "attempt": call.attempt, "token": call.token, **given}
        return Outcome(value=value, started_ms=now_ms)

    def _fails(self, call: Any) -> bool:
        every, first = self.failing.get(call.node, (0, 0))
        return bool(every) and "." in call.token and int(call.token.rpartition(".")[2]) % every == first


def make_timeline(rng: random.Random) -> Program:
    """A random workflow without forks; now and then a small one, so that its few races are met often."""
    return _small(rng) if rng.random() < 0.4 else _any(rng)


def _small(rng: random.Random) -> Program:
    """A step, a wait for an event, a step: enough for a wakeup to be lost."""
    wait = Wait("event", event="a", key=KEY, timeout_ms=rng.choice([None, 60_000]), on_timeout="continue")
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=wait, rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(Rule("n2.next", "next", to=END),)),
    }
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {})
    return Program(graph, {}, {}, frozenset(), (), (("cancel", 1),) * (rng.random() < 0.2))


def _any(rng: random.Random) -> Program:
    """A chain of two to six nodes with loops, skips, waits, failures and a few calls from outside."""
    names = [f"n{index}" for index in range(rng.randint(2, 6))]
    flaky: dict[str, int] = {}
    directives: dict[str, Pause] = {}
    blocked: set[str] = set()
    nodes: dict[str, Node] = {}
    for index, name in enumerate(names):
        following = names[index + 1] if index + 1 < len(names) else END
        if rng.random() < 0.55:
            step = make_step(rng, name, flaky, directives, blocked)
            nodes[name] = Node(name, step=step, rules=make_rules(rng, names, index, following), max_visits=4)
        elif rng.random() < 0.85:
            nodes[name] = Node(name, wait=make_wait(rng), rules=make_rules(rng, names, index, following), max_visits=4)
        else:
            nodes[name] = Node(name, rules=(Rule(f"{name}.next", "next", to=following),), max_visits=4)
    timeout_ms = rng.choice([None, None, None, 30_000, 7_200_000])
    graph = Graph("sim", "sha256:sim", "timeline", names[0], nodes, {}, timeout_ms=timeout_ms)
    topics = (*TOPICS, "MESSAGE_RECEIVED")
    events = tuple((rng.choice(topics), f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(0, 4)))
    idle, start_after_ms = rng.random() < 0.15, rng.choice([0, 0, 0, 0, 10_000, 3_600_000])
    calls = (*make_calls(rng), *((("begin", rng.choice([0, 20])),) if idle else ()))
    return Program(graph, flaky, directives, frozenset(blocked), events, calls, idle, start_after_ms)


def make_calls(rng: random.Random) -> tuple[tuple[str, int], ...]:
    calls = [("approve", rng.choice([0, 1, 60, 4_000])) for _ in range(rng.randint(0, 3))]
    calls += [("reject", rng.choice([0, 60, 4_000]))] * (rng.random() < 0.2)
    calls += [("cancel", rng.choice([0, 1, 30, 5_000]))] * (rng.random() < 0.25)
    calls += [("terminate", rng.choice([0, 10, 5_000]))] * (rng.random() < 0.08)
    return tuple(calls)


def make_step(
    rng: random.Random, name: str, flaky: dict[str, int], directives: dict[str, Pause], blocked: set[str]
) -> Step:
    retry = None
    if rng.random() < 0.35:
        flaky[name] = rng.randint(1, 3)
        backoff, jitter = rng.choice(["constant", "linear", "exponential"]), rng.choice(["none", "full"])
        initial_ms = rng.choice([0, 1_000, 2_000_000])
        retry = Retry(rng.randint(0, 3), backoff, initial_ms, 4_000_000, jitter, frozenset({"step"}))
    elif rng.random() < 0.3:
        kind = rng.choice(["sleep", "event", "approval"])
        topic = rng.choice(TOPICS) if kind == "event" else ""
        timeout_ms, then = rng.choice([1_000, 5_000_000]), rng.choice(["next", "again"])
        directives[name] = Pause(kind, topic, "k" if topic else "", None, timeout_ms, {"carried": 1}, then)
    elif rng.random() < 0.1:
        blocked.add(name)
    once = rng.random() < 0.2 and name not in directives and name not in blocked
    on_failure = rng.choice(["abort", "skip"])
    return Step(f"python:sim.{name}", retry=retry, at_most_once=once, on_failure=on_failure,
                input=BAD if rng.random() < 0.02 else None)  # fmt: skip


def make_rules(rng: random.Random, names: list[str], index: int, following: str) -> tuple[Rule, ...]:
    name = names[index]
    rules = []
    if rng.random() < 0.3:
        rules.append(Rule(f"{name}.diverge[0]", "diverge", ERROR, to=rng.choice(names[: index + 1]), max_uses=2))
    if rng.random() < 0.2:
        rules.append(Rule(f"{name}.diverge[1]", "diverge", ERROR))  # continue
    if rng.random() < 0.1:
        rules.append(Rule(f"{name}.branch[0]", "branch", BAD if rng.random() < 0.1 else None, to=END))
    if rng.random() < 0.2 and index:
        rules.append(Rule(f"{name}.branch[1]", "branch", None, to=names[rng.randrange(index)], max_uses=1))
    return (*rules, Rule(f"{name}.next", "next", to=following))


def make_wait(rng: random.Random, arms: bool = True) -> Wait:
    kind = rng.choice(["event", "event", "approval", "sleep", "response", "any"] if arms else ["event", "delay"])
    if kind == "any":
        return Wait("any", arms=(make_wait(rng, False), make_wait(rng, False)), timeout_ms=rng.choice([None, 9_000]))
    actions = (Step("python:sim.remind"),) * rng.choice([0, 0, 1, 2]) if kind not in {"sleep", "delay"} else ()
    timed = kind in {"sleep", "delay"}
    return Wait(
        kind,
        event=rng.choice(TOPICS) if kind == "event" else None,
        key=KEY if rng.random() < 0.8 else None,
        match=rng.choice([None, None, IS_EVEN, BAD if rng.random() < 0.2 else None]),
        timeout_ms=rng.choice([0, 1_000, 60_000, 3_600_000, 90_000_000]) if timed or rng.random() < 0.85 else None,
        on_timeout=rng.choice(["fail", "continue", "retry"]),
        max_retries=2,
        timeout_actions=actions,
        on_reject=rng.choice(["fail", "route"]),
    )

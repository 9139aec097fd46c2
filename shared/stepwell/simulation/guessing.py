"""A workflow whose results are not known: expressions over them are decided by chance.

What can be evaluated is: a condition over `error`, over the input that is given, over results that are given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from stepwell.definition.compiled import Collection, Expression, Shaping
from stepwell.definition.graph import CALLS, MADE, Call, Graph, Json, Node, Rule, Step, Wait
from stepwell.errors import ExpressionError
from stepwell.simulation.assumptions import UNKNOWN, Assumptions
from stepwell.values import dataclass

ITEMS = 3  # of a collection that is not known
_FROM_OUTSIDE = frozenset({"response", "document", "signature", "test", "callback"})  # waits that an event ends


class Luck:
    """The chance of one simulation, and what it decided without being told: `assumed` rules and collections.

    `met`: the steps and waits that it decided of.
    """

    def __init__(self) -> None:
        self.rng = random.Random()  # noqa: S311  seeded for each run
        self.assumed: dict[str, str] = {}
        self.met: set[str] = set()

    def coin(self, name: str, given: float | None, otherwise: float) -> bool:
        """Decides a condition that cannot be evaluated."""
        if given is None:
            self.assumed.setdefault(f"rule {name}", f"applies with {otherwise:.0%}, because what it reads is not given")
        return self.rng.random() < (otherwise if given is None else given)


E = TypeVar("E", bound=Expression)


@dataclass(frozen=True)
class _Around(Generic[E]):
    """An expression around another one, which looks like that one."""

    inner: E

    @property
    def text(self) -> str:
        """The source, as the user wrote it."""
        return self.inner.text

    @property
    def names(self) -> frozenset[str]:
        """The top-level names it reads."""
        return self.inner.names

    @property
    def reads_error(self) -> bool:
        """Whether it looks at an error."""
        return self.inner.reads_error


@dataclass(frozen=True)
class Chance(_Around[Expression]):
    """A condition that chance decides where it reads what is unknown."""

    rule: str
    given: float | None
    otherwise: float
    luck: Luck

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        """The value, or what chance decides. What asks for an error where there is none never applies."""
        is_failed = names.get("error") is not None
        if ("error" in self.names and not is_failed) or ("result" in self.names and is_failed and not self.reads_error):
            return False
        if self.given is None and not _reads_unknown(self.inner, names):
            with suppress(ExpressionError):  # it asks more of the values than is known of them
                return self.inner.evaluate(names)
        return self.luck.coin(self.rule, self.given, self.otherwise)


@dataclass(frozen=True)
class Lenient(_Around[Expression]):
    """A template whose value is unknown where it cannot be evaluated."""

    otherwise: Json = field(default_factory=dict)  # an empty object, because an output is one

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        """Returns the value; `otherwise` if it cannot be evaluated."""
        try:
            return self.inner.evaluate(names)
        except ExpressionError:
            return self.otherwise


@dataclass(frozen=True)
class Many(_Around[Collection]):
    """A collection of so many unknown items, where it cannot be evaluated."""

    node: str
    given: int | None
    luck: Luck

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        """The items as a list."""
        return list(self.items(names))

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        """The items."""
        if self.given is None and not _reads_unknown(self.inner, names):
            with suppress(ExpressionError):  # as above
                return self.inner.items(names)
        if self.given is None:
            self.luck.assumed.setdefault(f"items {self.node}", f"{ITEMS}, because the collection is not given")
        return [UNKNOWN] * (ITEMS if self.given is None else self.given)


@dataclass(frozen=True)
class Unmade:
    """Makes an unknown result of what is not known, where a state of a machine cannot make its own of it."""

    inner: Shaping
    state: str
    luck: Luck

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        """The node's result and writes. Raises ExpressionError if all is known that came to it."""
        try:
            return self.inner.shape(names, brought)
        except ExpressionError:
            came = names["result"] if MADE in names["scope"] else names["input"]
            if not _is_unknown(brought) and not _is_unknown(came):
                raise
        how = "makes an unknown result, because what it reads is not given"
        self.luck.assumed.setdefault(f"state {self.state}", how)
        return UNKNOWN, {MADE: True}


@dataclass(frozen=True)
class Unread:
    """Leaves what came to a node as it is, where the items of a fork are not known: so many are guessed.

    Such a node reads the items, forks over them, or makes the input of one.
    """

    inner: Shaping
    is_step: bool  # beside whose items the node's own input stands
    is_join: bool  # that keeps what has come, whatever it is

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        """The node's result and writes."""
        if self.is_join or not _is_unknown(brought):
            with suppress(ExpressionError):  # it asks more of the values than is known of them
                return self.inner.shape(names, brought)
        if not self.is_step:
            return brought, {}
        return names["result"] if MADE in names["scope"] else names["input"], {MADE: True}


def _reads_unknown(expression: Expression, names: Mapping[str, Json]) -> bool:
    """Whether it reads a result that is not given, or a part of the scope that has one."""
    for name in expression.names & names.keys():
        members = getattr(expression, name, None) if name in {"steps", "state"} else None
        value = names[name]
        if isinstance(members, frozenset | set | tuple) and members and isinstance(value, Mapping):
            if any(_is_unknown(value.get(one)) for one in members):
                return True
        elif _is_unknown(value):
            return True
    return False


def _is_unknown(value: Any) -> bool:
    if value == UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(_is_unknown(one) for one in value.values())
    return isinstance(value, list) and any(_is_unknown(one) for one in value[:10])


def is_machine(graph: Graph) -> bool:
    """Tells whether it is a state machine, whose states make their results of their input."""
    return any(node.shaping is not None for node in graph.nodes.values())


def guessed(graph: Graph, given: Assumptions, luck: Luck, known: Mapping[str, Graph]) -> Graph:
    """Returns the graph with chance in place of what is not known. `known`: the workflows that it may call."""
    nodes = {name: _node(node, given, luck, known) for name, node in graph.nodes.items()}
    return replace(graph, nodes=nodes, input_schema=None, output_schema=None, state_schema=None, schedules=(),
                   event_triggers=(), lock=None, concurrency=None, rate_limit=None, internal=False)  # fmt: skip


def _node(node: Node, given: Assumptions, luck: Luck, known: Mapping[str, Graph]) -> Node:
    call = node.call
    step = _step(node.step)
    if call is not None and not all(child.workflow in known for child in call.children):
        step, call = Step(f"python:simulated.{node.name}", timeout_ms=call.timeout_ms, on_failure=call.on_failure), None
    return replace(
        node,
        step=step,
        call=None if call is None else _call(call, known),
        wait=None if node.wait is None else _wait(node.wait, node.name),
        compensate=_step(node.compensate),
        rules=tuple(_rules(node, given, luck)),
        shaping=_shaping(node, luck),
        lock=None,
    )


def _shaping(node: Node, luck: Luck) -> Shaping | None:
    """Its shaping, which does without what is not known."""
    if node.shaping is None or not node.is_made:
        return None if node.shaping is None else Unmade(node.shaping, node.name, luck)
    return Unread(node.shaping, node.step is not None, node.fan_in is not None)


def _step(step: Step | None) -> Step | None:
    if step is None:
        return None
    run = f"python:simulated.{step.run.partition(':')[0]}" if step.run.startswith(CALLS) else step.run
    callback = step.callback and replace(step.callback, heartbeat_ms=None)
    return replace(step, run=run, input=None, action=None, http=None, output=_lenient(step.output), pool=None,
                   limits=None, callback=callback)  # fmt: skip


def _call(call: Call, known: Mapping[str, Graph]) -> Call:
    """Its children, with their inputs as far as these are known."""
    children = tuple(
        replace(child, input=Lenient(child.input, UNKNOWN if is_machine(known[child.workflow]) else {}))
        if child.input is not None else child
        for child in call.children
    )  # fmt: skip
    return replace(call, children=children, output=_lenient(call.output))


def _wait(wait: Wait, node: str) -> Wait:
    """A wait that chance answers: for anything from outside it is one for an event of its own."""
    plain = replace(wait, data=None, match=None, sender=None, approvers=None, heartbeat_ms=None, documents=None,
                    output=_lenient(wait.output), arms=tuple(_wait(arm, node) for arm in wait.arms),
                    timeout_actions=tuple(one for step in wait.timeout_actions if (one := _step(step))))  # fmt: skip
    if wait.kind in _FROM_OUTSIDE or wait.kind == "event":
        return replace(plain, kind="event", event=f"simulated.{wait.event or wait.kind}", key=None)
    return plain


def _rules(node: Node, given: Assumptions, luck: Luck) -> Sequence[Rule]:
    """Returns its rules: at most one of several alternatives applies, but each rule of a fork."""
    made: list[Rule] = []
    for index, rule in enumerate(node.rules):
        others = [one for one in node.rules[index:] if one.stage in {rule.stage, "next"}]
        otherwise = 1.0 if node.fan_out == "all" else 1 / max(len(others), 1)
        when = rule.when
        if when is not None:
            when = Chance(when, rule.id, given.rules.get(rule.id), otherwise, luck)
        name = node.part_of or node.name
        foreach = rule.foreach and Many(rule.foreach, name, given.items.get(name), luck)
        made.append(replace(rule, when=when, foreach=foreach, bounds=None))
    return made


def _lenient(expression: Expression | None) -> Expression | None:
    return None if expression is None else Lenient(expression)

"""Deadlines that contradict each other, found in the definition alone: no run is needed to see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.durations import show_duration
from stepwell.definition.graph import END, Call, Graph, Node, Retry, Step
from stepwell.engine.retry import backoff_ms, resolve_policy
from stepwell.values import dataclass

_TIMED = frozenset({"sleep", "delay"})
Defaults = Callable[[str], StepDefaults]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two deadlines that cannot both count. `node`: where, as the definition names it; "": the workflow."""

    code: str
    node: str
    message: str
    hint: str


def contradictions(graph: Graph, others: Mapping[str, Graph], defaults: Defaults) -> tuple[Contradiction, ...]:
    """Returns them in the order of the nodes. `others`: the workflows that it may call."""
    found: list[Contradiction] = []
    before_ms = _earliest_ms(graph)
    for name, node in graph.nodes.items():
        found += _of_node(graph, name, node, others, defaults, before_ms.get(name, 0))
    limit_ms, end_ms = graph.timeout_ms, before_ms.get(END)
    if limit_ms is not None and end_ms is not None and end_ms >= limit_ms:
        message = f"the sleeps on every way to the end take {_told(end_ms)}, and the run may take {_told(limit_ms)}"
        found.append(Contradiction("never_completes", "", message, "raise the workflow's `timeout`"))
    return tuple(found)


def _of_node(
    graph: Graph, name: str, node: Node, others: Mapping[str, Graph], defaults: Defaults, before_ms: int
) -> Iterator[Contradiction]:
    if graph.timeout_ms is not None:
        yield from _beyond_run(graph.timeout_ms, name, node, defaults, before_ms)
    if node.call is not None:
        yield from _of_call(name, node.call, others)


def _beyond_run(limit_ms: int, name: str, node: Node, defaults: Defaults, before_ms: int) -> Iterator[Contradiction]:
    """What would end after the run's own deadline, counted from the run's start."""
    left_ms = limit_ms - before_ms
    left = f"{_told(max(left_ms, 0))} are left of the run's {_told(limit_ms)}" if before_ms else (
        f"the run may take {_told(limit_ms)}")  # fmt: skip
    raise_it = "shorten it, or raise the workflow's `timeout`"
    if node.step is not None:
        yield from _of_step(name, node.step, defaults, left_ms, left, raise_it)
    wait = node.wait
    waits_ms = None if wait is None else wait.timeout_ms
    if wait is not None and wait.timeout is None and waits_ms is not None and waits_ms >= left_ms:
        if wait.kind in _TIMED:
            message = f"`{name}` sleeps for {_told(waits_ms)}, and {left}: no run gets past it"
            yield Contradiction("sleep_outlives_run", name, message, raise_it)
        else:
            message = f"`{name}` waits for up to {_told(waits_ms)}, and {left}: its time-out never comes"
            yield Contradiction("wait_outlives_run", name, message, raise_it)


def _of_step(name: str, step: Step, defaults: Defaults, left_ms: int, left: str, hint: str) -> Iterator[Contradiction]:
    policy = resolve_policy(step, defaults(step.run))
    is_said = step.timeout_ms is not None or defaults(step.run).timeout_ms is not None
    if is_said and policy.timeout_ms >= left_ms:
        message = f"`{name}` may take {_told(policy.timeout_ms)}, and {left}: its own time limit never comes"
        yield Contradiction("step_outlives_run", name, message, hint)
    elif policy.retry is not None:
        pauses_ms = sum(_pauses_ms(policy.retry))
        tries = policy.retry.max_retries + 1
        whole_ms = pauses_ms + (tries * policy.timeout_ms if is_said else 0)
        if whole_ms > left_ms:
            each = f" of up to {_told(policy.timeout_ms)}" if is_said else ""
            message = f"the {tries} tries of `{name}`{each} and their pauses take up to {_told(whole_ms)}, and {left}"
            yield Contradiction("retries_outlive_run", name, message, "allow fewer retries, or shorter ones")


def _pauses_ms(retry: Retry) -> Iterator[int]:
    for attempt in range(1, retry.max_retries + 1):
        yield backoff_ms(retry, attempt)


def _of_call(name: str, call: Call, others: Mapping[str, Graph]) -> Iterator[Contradiction]:
    for child in call.children:
        other = others.get(child.workflow)
        own_ms = other.timeout_ms if other is not None else None
        if call.timeout_ms is not None and own_ms is not None and own_ms > call.timeout_ms:
            message = (f"`{name}` waits {_told(call.timeout_ms)} for {child.workflow}, which may take "
                       f"{_told(own_ms)}: its own time limit never comes")  # fmt: skip
            yield Contradiction("child_outlives_wait", name, message, "shorten the child's, or wait longer")


def _earliest_ms(graph: Graph) -> Mapping[str, int]:
    """How long the sleeps before each node take at least, and before the end."""
    members = graph.dependencies
    if members:
        return _earliest_of_dag(graph, members)
    earliest: dict[str, int] = {}
    left = [(0, graph.start)]
    while left:
        at_ms, name = heappop(left)
        if name in earliest:
            continue
        earliest[name] = at_ms
        node = graph.nodes.get(name)
        if node is None:
            continue
        after_ms = at_ms + _sleep_ms(node)
        ways = [rule.to for rule in node.rules if rule.to] or [END]
        for to in ways:
            heappush(left, (after_ms, to))
    return earliest


def _earliest_of_dag(graph: Graph, members: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    earliest: dict[str, int] = {}
    ends: dict[str, int] = {}
    for name in TopologicalSorter(members).static_order():
        earliest[name] = max((ends[one] for one in members[name]), default=0)
        ends[name] = earliest[name] + _sleep_ms(graph.nodes[name])
    return {**earliest, END: max(ends.values(), default=0)}


def _sleep_ms(node: Node) -> int:
    wait = node.wait
    return wait.timeout_ms or 0 if wait is not None and wait.kind in _TIMED and wait.timeout is None else 0


def _told(duration_ms: int) -> str:
    return show_duration(duration_ms)

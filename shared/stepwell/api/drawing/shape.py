"""Computes a workflow's picture independently of the format: shapes, lines between them, and their texts.

Shapes have generated ids (`n0`, `f1`), so that no user's name has a meaning in a format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from stepwell.api.graphs import GraphView, detached_by
from stepwell.api.led_past import led_past, shown_rules
from stepwell.definition.compiled import Expression
from stepwell.definition.graph import END, Call, Graph, Json, Node, Rule, dependency_id
from stepwell.engine.waits.kind import kind_named
from stepwell.values import dataclass

LABEL_CHARACTERS = 38  # of a condition on a line; longer ones are cut and shown whole in the tooltip
LABEL_LINES = 3
NAME_CHARACTERS = 32
STATUSES = ("completed", "running", "waiting", "paused", "failed", "skipped", "cancelled", "compensated")
MARKS = {
    "completed": "✓",
    "running": "●",
    "waiting": "◔",
    "paused": "‖",
    "failed": "✗",
    "skipped": "↷",
    "cancelled": "⊘",
    "compensated": "↺",
}

NO_WORDS: Mapping[str, str] = MappingProxyType({})
NOT_TAKEN: Mapping[str, int] = MappingProxyType({})
_LIMIT = " (max "
_LEFT = frozenset(
    {"completed", "passed", "skipped", "compensated"}
)  # of a node without rules: the run went on behind it
_START_ID, _END_ID = "s", "e"
_Ends: TypeAlias = tuple[str, str]
Drawable: TypeAlias = Graph | GraphView  # a workflow, or what a run of a durable function did


@dataclass(frozen=True, slots=True)
class Shape:
    """A node, or a start or end of the run. `status` is empty if the run has not visited it.

    `words`: how it went: of branches how many are in each status, attempts, and the time that it took.
    """

    id: str
    kind: str  # start | step | wait | call | route | end | fail
    title: str
    detail: str = ""
    status: str = ""
    words: str = ""

    @property
    def name(self) -> str:
        """The title, cut to fit the picture."""
        return shorten(self.title, NAME_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Line:
    """All rules that lead from one shape to another; dashed if they handle errors. `taken`: how often, by a run."""

    source: str
    target: str
    conditions: tuple[str, ...] = ()
    error: bool = False
    taken: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """The conditions, cut to fit the picture, and how often they led here if more than once."""
        return (*self._conditions, f"{self.taken}x") if self.taken > 1 else self._conditions

    @property
    def _conditions(self) -> tuple[str, ...]:
        shown = tuple(_label(text) for text in self.conditions[:LABEL_LINES])
        hidden = len(self.conditions) - LABEL_LINES
        return (*shown[:-1], f"{shorten(shown[-1], LABEL_CHARACTERS - 10)} +{hidden} more") if hidden > 0 else shown


@dataclass(frozen=True, slots=True)
class Picture:
    """The shapes from start to end, in the order of the definition, and their lines."""

    name: str
    shapes: tuple[Shape, ...]
    lines: tuple[Line, ...]


def picture(
    graph: Drawable,
    states: Mapping[str, str],
    words: Mapping[str, str] = NO_WORDS,
    taken: Mapping[str, int] = NOT_TAKEN,
) -> Picture:
    """Computes the picture. `passed` (a node without code) looks completed; an unknown status looks unvisited.

    `words` says how a node went, `taken` how often a rule, by its id, was taken. A run of a durable function is drawn
    by what its log has, which `operations` makes a graph of; there the words of `end` are the run's error.
    """
    if not isinstance(graph, Graph):
        return _run_picture(graph, states, words, taken)
    ids = {name: f"n{index}" for index, name in enumerate(graph.shown)}
    nodes = [
        replace(_node_shape(node, ids[name], states.get(name, "")), words=words.get(name, ""))
        for name, node in graph.shown.items()
    ]
    failures: dict[_Ends, Shape] = {}
    if graph.dependencies:
        lines = list(_dag_lines(graph.dependencies, ids, states, taken))
    else:
        first = [name for name in led_past(graph, graph.start) if name in ids]
        lines = [Line(_START_ID, ids[name], taken=int(graph.start in states)) for name in first]
        for name, node in graph.shown.items():
            is_end = not node.rules and states.get(name) in _LEFT
            lines.extend(_merged(_node_lines(graph, node, ids, failures), taken, int(is_end)))
    ends = [Shape(_END_ID, "end", "end")] if any(line.target == _END_ID for line in lines) else []
    shapes = (Shape(_START_ID, "start", "start"), *nodes, *failures.values(), *ends)
    return Picture(graph.name, shapes, tuple(lines))


def _run_picture(
    view: GraphView, states: Mapping[str, str], words: Mapping[str, str], taken: Mapping[str, int]
) -> Picture:
    ids = {view["start"]: _START_ID, END: _END_ID}
    shapes = [Shape(_START_ID, "start", "start")]
    for index, node in enumerate(view["nodes"][1:]):
        name = node["name"]
        ids[name] = f"n{index}"
        status = states[name] if states[name] in STATUSES else ""
        kind, detail = ("call", _called_words(node["calls"])) if node["calls"] else ("step", "")
        shapes.append(Shape(ids[name], kind, name, detail, status=status, words=words.get(name, "")))
    lines = [
        Line(ids[edge["from"]], ids[edge["to"] or END], (edge["when"],) if edge["when"] else (),
             taken=taken.get(edge["id"], 0))
        for edge in view["edges"]
    ]  # fmt: skip
    is_failed = states[view["start"]] == "failed"  # perhaps by the function's own code, behind its last operation
    end = Shape(_END_ID, "fail", words.get(END, "failed")) if is_failed else Shape(_END_ID, "end", "end")
    ends = [end] if any(line.target == _END_ID for line in lines) else []
    return Picture(view["start"], (*shapes, *ends), tuple(lines))


def outline(graph: Graph, states: Mapping[str, str]) -> dict[str, Json]:
    """Returns the picture as plain JSON, for other drawing programs."""
    drawn = picture(graph, states)
    return {
        "workflow": drawn.name,
        "nodes": [
            {"id": shape.id, "kind": shape.kind, "name": shape.title, "detail": shape.detail, "status": shape.status}
            for shape in drawn.shapes
        ],
        "edges": [
            {"from": line.source, "to": line.target, "conditions": list(line.conditions), "error": line.error}
            for line in drawn.lines
        ],
    }


def shorten(text: str, characters: int) -> str:
    """Shortens text to one line of at most this many characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def _label(condition: str) -> str:
    """Shortens a condition, but keeps its limit whole."""
    text, limit, most = condition.rpartition(_LIMIT)
    return shorten(text, LABEL_CHARACTERS - 8) + limit + most if limit else shorten(condition, LABEL_CHARACTERS)


def _node_shape(node: Node, shape_id: str, status: str) -> Shape:
    known = "completed" if status == "passed" else status if status in STATUSES else ""
    kind, what = "route", ""
    if node.wait is not None:
        kind, what = "wait", kind_named(node.wait.kind).words(node.wait)
    elif node.call is not None:
        kind, what = "call", _call_words(node.call)
    elif workflow := detached_by(node.step):
        kind, what = "call", f"workflow: {workflow}, detached"
    elif node.step is not None:
        kind, what = "step", node.step.run
    return Shape(shape_id, kind, node.name, " · ".join(filter(None, (*_fork_words(node), what))), known)


def _fork_words(node: Node) -> Iterator[str]:
    if node.fan_in is not None:
        yield f"join {node.fan_in.need}" if node.fan_in.policy == "m_of_n" else f"join {node.fan_in.policy}"
    if node.fan_out == "all":
        yield "fork"


def _call_words(call: Call) -> str:
    return _called_words([child.workflow for child in call.children])


def _called_words(workflows: list[str]) -> str:
    if len(workflows) == 1:
        return f"workflow: {workflows[0]}"
    return f"{len(workflows)} child runs: {', '.join(dict.fromkeys(workflows))}"


def _dag_lines(
    dag: Mapping[str, tuple[str, ...]], ids: Mapping[str, str], states: Mapping[str, str], taken: Mapping[str, int]
) -> Iterator[Line]:
    """Yields the lines from the start to the roots, between the steps, and from the leaves to the end."""
    needed = {one for needs in dag.values() for one in needs}
    for name, needs in dag.items():
        if not any(one in ids for one in needs):
            yield Line(_START_ID, ids[name], taken=int(name in states))
        for at, one in enumerate(needs):
            if one in ids:
                yield Line(ids[one], ids[name], taken=taken.get(dependency_id(name, at), 0))
    yield from (Line(ids[name], _END_ID, taken=int(states.get(name) in _LEFT)) for name in dag if name not in needed)


def _node_lines(
    graph: Graph, node: Node, ids: Mapping[str, str], failures: dict[_Ends, Shape]
) -> Iterator[tuple[_Ends, str, bool, str]]:
    """Yields ((from, to), condition, error, rule) for each rule with a target; `continue` has none."""
    source = ids[node.name]
    if not node.rules:
        yield (source, _END_ID), "", False, ""
    conditional = False
    takes_one = node.fan_out != "all"  # only then is there an `otherwise`
    for rule in shown_rules(graph, node):
        if rule.fail is not None:
            key = (source, rule.fail)
            failures.setdefault(key, Shape(f"f{len(failures)}", "fail", rule.fail))
            yield (source, failures[key].id), _condition(rule, conditional), True, rule.id
        elif rule.to is not None:
            target = _END_ID if rule.to == END else ids.get(rule.to)
            if target is not None:  # a definition with an unknown target can still be drawn
                yield (source, target), _condition(rule, conditional), rule.reads_error, rule.id
        conditional = conditional or (takes_one and rule.stage == "transition" and rule.when is not None)


def _condition(rule: Rule, conditional: bool) -> str:
    """Describes a rule. A transition without a condition, after others with one, is the `otherwise`."""
    text = _bare(rule.when)
    if not text and rule.stage == "transition" and conditional:
        text = "otherwise"
    if rule.foreach is not None:
        text = f"foreach {_bare(rule.foreach)}{f' if {text}' if rule.when is not None else ''}"
    if rule.max_uses is None:
        return text
    return f"{text}{_LIMIT}{rule.max_uses})".strip()


def _bare(condition: Expression | None) -> str:
    text = condition.text.strip() if condition is not None else ""
    return text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else text


def _merged(
    rules: Iterator[tuple[_Ends, str, bool, str]], taken: Mapping[str, int], without_rule: int
) -> Iterator[Line]:
    """Merges rules with the same target into one line; errors keep a separate line."""
    conditions: dict[tuple[_Ends, bool], list[str]] = {}
    times: Counter[tuple[_Ends, bool]] = Counter()
    for ends, condition, error, rule_id in rules:
        conditions.setdefault((ends, error), []).extend([condition] if condition else [])
        times[ends, error] += taken.get(rule_id, 0) if rule_id else without_rule
    for ((source, target), error), texts in conditions.items():
        yield Line(source, target, tuple(texts), error, times[(source, target), error])

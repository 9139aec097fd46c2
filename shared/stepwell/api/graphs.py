"""The API's view of workflows: nodes and edges, and for a run the status of each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

from stepwell.api.led_past import led_past, shown_rules
from stepwell.api.pauses import WorkflowPauseView, pause_view
from stepwell.api.runs.rollbacks import node_not_undone, undone_steps
from stepwell.api.runs.states import current_steps, fork_at, left_to_undo, live_tokens, status_of
from stepwell.api.runs.steps import StepResult
from stepwell.definition.durable import UNKNOWN, FunctionFacts
from stepwell.definition.graph import END, Graph, Json, Node, Rule, Step, dependency_id
from stepwell.engine.children import DETACHED
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.names import node_of
from stepwell.engine.records import Status
from stepwell.engine.token import Token
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.pauses import WorkflowPause


class NodeView(TypedDict):
    """A node: `kind` is step, wait, call or route.

    `forks_to`: where the branches of a node that forks meet, or `end`. `joins`: of a node where branches meet, how many
    it takes (all, any, m_of_n). `calls`: the workflows of the child runs that it starts. `compensate`: what undoes it.
    In a run of a durable function, `kind` is function, operation or call, and `operation` is a name that several nodes
    may have.
    """

    name: str
    kind: str
    operation: str | None
    run: str | None
    wait: str | None
    calls: list[str]
    compensate: str | None
    terminal: bool
    forks_to: str | None
    joins: str | None


EdgeView = TypedDict(
    "EdgeView",
    {
        "id": str,
        "from": str,
        "to": str | None,
        "stage": str,
        "when": str | None,
        "foreach": str | None,
        "fail": str | None,
    },
)


class WorkflowSummary(TypedDict):
    """A workflow in a list. `paused`: what stops its runs, be it a pause of all workflows.

    `version_number`: what the author of a durable function gave this version.
    """

    name: str
    version: str
    version_number: int | None
    format: str
    description: str
    nodes: int
    paused: WorkflowPauseView | None
    links: dict[str, str]


class GraphView(TypedDict):
    """A graph's nodes and edges."""

    start: str
    nodes: list[NodeView]
    edges: list[EdgeView]


class WorkflowView(WorkflowSummary):
    """A workflow: the graph that runs execute, and its definition. `gathers`: debounce | batch, if it does that.

    `input_schema`: the definition's; of a durable function that has none, what its code says of its parameters, null if
    the code does not tell. `queries`, `updates`: a function's, as far as its code names them.
    """

    graph: GraphView
    input_schema: dict[str, Json] | None
    queries: list[str]
    updates: list[str]
    gathers: str | None
    timeout_seconds: float | None
    document: dict[str, Json]


def workflow_summary(graph: Graph, pause: WorkflowPause | None) -> WorkflowSummary:
    return WorkflowSummary(
        name=graph.name,
        version=graph.version,
        version_number=graph.number,
        format=graph.format,
        description=graph.description,
        nodes=len(graph.shown),
        paused=None if pause is None else pause_view(pause),
        links={"self": f"/workflows/{graph.name}", "runs": f"/runs?workflow={graph.name}"},
    )


def workflow_view(graph: Graph, pause: WorkflowPause | None, facts: FunctionFacts | None) -> WorkflowView:
    """Builds the view. `facts`: of a durable function, what is known of it."""
    facts = facts or UNKNOWN
    return WorkflowView(
        **workflow_summary(graph, pause),
        graph=graph_view(graph),
        input_schema=graph.document.get("input_schema", facts["input_schema"]),
        queries=facts["queries"],
        updates=facts["updates"],
        gathers=None if graph.gathering is None else graph.gathering.mode,
        timeout_seconds=None if graph.timeout_ms is None else graph.timeout_ms / 1000,
        document=dict(graph.document),
    )


def graph_view(graph: Graph) -> GraphView:
    """Builds the graph view; `to` is `end` for an edge that ends the run, null for one that fails it or continues.

    Of a DAG the edges are the dependencies, of stage `depends_on`, from each to the step that waits for it.
    """
    return GraphView(
        start=next(iter(led_past(graph, graph.start)), graph.start),
        nodes=[_node(graph, node) for node in graph.shown.values()],
        edges=[
            *(_edge(node, rule) for node in graph.shown.values() for rule in shown_rules(graph, node)),
            *(_dependency(name, at, one) for name, needs in graph.dependencies.items() for at, one in enumerate(needs)),
        ],
    )


def node_states(at: Standing, steps: Mapping[str, StepResult]) -> dict[str, str]:
    """What became of each node that the run has touched: its step's status, or `passed` for a node without one.

    A node whose compensation failed is `failed`, and with it the rollback ended. Of a DAG, what its steps show:
    `completed` for one without code too. Of a durable function: how the run is, and what became of its operations.
    `steps` are the run's, with those of its branches.
    """
    not_undone = dict.fromkeys(node_not_undone(at), "failed")
    if at.graph.dependencies:
        return {name: step["status"] for name, step in steps.items() if step["status"] != "pending"} | not_undone
    if at.graph.replays:
        status = "failed" if status_of(at) is Status.TIMED_OUT else status_of(at).value
        return {name: step["status"] for name, step in steps.items()} | {at.graph.start: status}
    states = {name: "passed" for name in at.token.visits if name != at.token.node or at.token.ended}
    states |= {name: step["status"] for name, step in steps.items() if step["status"] != "pending"}
    if at.token.undoing is not None:  # branches too: a node is undone if all its commits are
        left = {one.node for one in left_to_undo(at) or ()}
        states |= {node: "completed" if node in left else "compensated" for _, node in undone_steps(at)} | not_undone
    else:
        live = live_tokens(at)
        running = {node_of(at.graph, one) for one in live if not is_waiting(one)}
        forked = _forked(at, live, steps)
        current = [name for name in current_steps(at) if name not in forked and states.get(name) != "paused"]
        states |= {name: "running" if name in running or not live else "waiting" for name in current}
    return states


def _forked(at: Standing, live: Iterable[Token], steps: Mapping[str, StepResult]) -> set[str]:
    """Returns the nodes whose step has ended and opened a fork: their tokens stand there until the branches join."""
    names = {at.graph.seen_as(node_of(at.graph, one)) for one in live if fork_at(one) is not None}
    return {name for name in names if name in steps and steps[name]["ended_at"] is not None}


def detached_by(step: Step | None) -> str:
    """Returns the workflow of the detached run that a step starts; "" if it starts none."""
    return step.run.removeprefix(DETACHED) if step is not None and step.run.startswith(DETACHED) else ""


def _node(graph: Graph, node: Node) -> NodeView:
    is_fork = node.fan_out == "all" or any(rule.foreach for rule in node.rules)
    called = [one.workflow for one in node.call.children] if node.call else []
    if workflow := detached_by(node.step):
        called = [workflow]
    is_last = not any(node.name in needs for needs in graph.dependencies.values())
    return NodeView(
        name=node.name,
        kind="call" if called else "step" if node.step else "wait" if node.wait else "route",
        operation=None,
        run=node.step.run if node.step else None,
        wait=node.wait.kind if node.wait else None,
        calls=called,
        compensate=node.compensate.run if node.compensate else None,
        terminal=is_last and (not node.rules or any(rule.to == END for rule in node.rules)),
        forks_to=(node.join or END) if is_fork else None,
        joins=node.fan_in.policy if node.fan_in else None,
    )


def _edge(node: Node, rule: Rule) -> EdgeView:
    return EdgeView(
        {
            "id": rule.id,
            "from": node.name,
            "to": rule.to,
            "stage": rule.stage,
            "when": rule.when.text if rule.when else None,
            "foreach": rule.foreach.text if rule.foreach else None,
            "fail": rule.fail,
        }
    )


def _dependency(name: str, at: int, needed: str) -> EdgeView:
    edge_id = dependency_id(name, at)
    return EdgeView(
        {"id": edge_id, "from": needed, "to": name, "stage": "depends_on", "when": None, "foreach": None, "fail": None}
    )

"""The check of a definition that is not deployed: its problems, and if it has no errors, its graph and a simulation."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict

from stepwell.api.graphs import GraphView, graph_view
from stepwell.api.requests import Body
from stepwell.definition.called import unknown_workflows
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph
from stepwell.errors import Problem
from stepwell.runtime.catalog import Catalog

CHECKED_CHARACTERS = 200_000
SIMULATED_RUNS, SIMULATED_SECONDS = 100, 1.0  # of one check: whoever checks waits for it


class CheckBody(Body):
    definition: str = Field(
        min_length=1, max_length=CHECKED_CHARACTERS, description="the text of a definition: YAML or JSON"
    )
    assumptions: dict[str, Any] | None = Field(
        default=None, description="of the simulation, as in `stepwell simulate --assume`; default: steps take 1 s"
    )
    simulate: bool = Field(default=True, description="whether to simulate runs, which takes up to a second")


class ProblemFound(TypedDict):
    """A problem of a definition. `line` and `column` count from 1; 0 if the place is unknown."""

    severity: str
    code: str
    message: str
    hint: str
    path: str
    line: int
    column: int


class CostsView(TypedDict):
    """What the same runs cost on three systems."""

    stepwell: float
    step_functions_standard: float
    lambda_durable_functions: float


class OutcomeView(TypedDict):
    """How many simulated runs ended so."""

    status: str
    count: int
    error: str
    step: str


class ContradictionView(TypedDict):
    """Two deadlines that cannot both count. `node`: empty for the workflow."""

    code: str
    node: str
    message: str
    hint: str


class SimulationView(TypedDict):
    """Simulated runs, of which no code ran. Costs are USD for 1,000 runs; null: too few runs were simulated."""

    runs: int
    outcomes: list[OutcomeView]
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    usd_per_1000_runs: CostsView | None
    prices_as_of: str
    never_reached: list[str]
    never_taken: list[str]
    contradictions: list[ContradictionView]
    assumed: dict[str, str]


class CheckView(TypedDict):
    """What a check found. Without errors there is a graph, and for a graph format a simulation."""

    name: str | None
    format: str | None
    problems: list[ProblemFound]
    graph: GraphView | None
    simulation: SimulationView | None


def check_view(body: CheckBody, catalog: Catalog) -> CheckView:
    """Checks a definition beside the deployed workflows, which it may call. Steps are not imported, nothing is kept.

    Raises UserError for bad assumptions, such as about a step that there is not.
    """
    made = compile_definition(body.definition)
    graph = made.graph
    known = [*catalog.current, *([graph.name] if graph else [])]
    hint = "deploy it together with this one"
    problems = [*made.problems, *unknown_workflows(made.called, known, "warning", hint)]
    return CheckView(
        name=graph.name if graph else None,
        format=graph.format if graph else None,
        problems=[_found(problem) for problem in problems],
        graph=graph_view(graph) if graph else None,
        simulation=_simulated(graph, body, catalog) if graph and body.simulate and not graph.replays else None,
    )


def _simulated(graph: Graph, body: CheckBody, catalog: Catalog) -> SimulationView:
    from stepwell.simulation import parse_assumptions, simulate  # noqa: PLC0415 - no other call needs it
    from stepwell.simulation.naming import refuse_unnamed  # noqa: PLC0415 - as above

    others = [one for name, one in catalog.current.items() if name != graph.name and not one.replays]
    given = parse_assumptions(body.assumptions)
    refuse_unnamed(given, (graph, *others))
    found = simulate(graph, given, runs=SIMULATED_RUNS, seconds=SIMULATED_SECONDS, others=others,
                     limits=catalog.limits, prices=catalog.prices)  # fmt: skip
    costs = found.usd_per_1000_runs
    return SimulationView(
        runs=found.runs,
        outcomes=[OutcomeView(status=one.status, count=one.count, error=one.error, step=one.step)
                  for one in found.outcomes],
        p50_seconds=found.p50_seconds,
        p95_seconds=found.p95_seconds,
        max_seconds=found.max_seconds,
        usd_per_1000_runs=CostsView(**costs) if costs else None,  # type: ignore[typeddict-item]  # its three names
        prices_as_of=found.prices_as_of,
        never_reached=list(found.never_reached),
        never_taken=list(found.never_taken),
        contradictions=[ContradictionView(code=one.code, node=one.node, message=one.message, hint=one.hint)
                        for one in found.contradictions],
        assumed=dict(found.assumed),
    )  # fmt: skip


def _found(problem: Problem) -> ProblemFound:
    return ProblemFound(
        severity=problem.severity,
        code=problem.code,
        message=problem.message,
        hint=problem.hint,
        path=problem.path,
        line=problem.line,
        column=problem.column,
    )

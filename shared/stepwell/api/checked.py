"""The check of a definition that is not deployed: its problems, and its graph if it has no errors."""

from __future__ import annotations

from pydantic import Field
from typing_extensions import TypedDict

from stepwell.api.graphs import GraphView, graph_view
from stepwell.api.requests import Body
from stepwell.definition.called import unknown_workflows
from stepwell.definition.compiler import compile_definition
from stepwell.errors import Problem

CHECKED_CHARACTERS = 200_000


class CheckBody(Body):
    definition: str = Field(
        min_length=1, max_length=CHECKED_CHARACTERS, description="the text of a definition: YAML or JSON"
    )


class ProblemFound(TypedDict):
    """A problem of a definition. `line` and `column` count from 1; 0 if the place is unknown."""

    severity: str
    code: str
    message: str
    hint: str
    path: str
    line: int
    column: int


class CheckView(TypedDict):
    """What a check found. Without errors there is a graph."""

    name: str | None
    format: str | None
    problems: list[ProblemFound]
    graph: GraphView | None


def check_view(text: str, deployed: list[str]) -> CheckView:
    """Checks a definition beside the deployed workflows, which it may call. Steps are not imported, nothing is kept."""
    made = compile_definition(text)
    graph = made.graph
    known = [*deployed, *([graph.name] if graph else [])]
    hint = "deploy it together with this one"
    problems = [*made.problems, *unknown_workflows(made.called, known, "warning", hint)]
    return CheckView(
        name=graph.name if graph else None,
        format=graph.format if graph else None,
        problems=[_found(problem) for problem in problems],
        graph=graph_view(graph) if graph else None,
    )


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

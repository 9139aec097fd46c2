"""Warns of an endpoint that asks for failed runs, and does not hear of those that are compensated after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwell.definition.graph import Graph, Json
from stepwell.definition.text import pointer_part
from stepwell.errors import Problem
from stepwell.runtime.folder.reading import read_text

_FAILED, _COMPENSATED = "run.failed", "run.compensated"


def unheard_failures(document: Mapping[str, Json] | None, graphs: Mapping[str, Graph], file: str) -> Iterator[Problem]:
    """Yields a warning for each such endpoint of a checked `webhooks.yaml`."""
    for name, endpoint in (document or {}).get("out", {}).items():
        asked, chosen = endpoint["events"], endpoint["workflows"]
        if _FAILED not in asked or _COMPENSATED in asked:
            continue
        undone = sorted(one for one in (graphs if chosen is None else chosen) if one in graphs and _undoes(graphs[one]))
        if undone:
            message = f"`{name}` is not told when {undone[0]} fails: a run that is undone ends with {_COMPENSATED}"
            hint = f"add {_COMPENSATED} to `events`; compensation.started comes as the undoing begins"
            path = f"/out/{pointer_part(name)}/events"
            yield _placed(Problem("failures_unheard", message, path, hint, file, severity="warning"))


def _placed(problem: Problem) -> Problem:
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    text, _ = read_text(Path(problem.file))
    return problem if text is None else load_document(text).placed(problem, problem.file)


def _undoes(graph: Graph) -> bool:
    """Tells whether a failure of the workflow's run, at some step at least, leads to compensation."""
    acts = (act for node in graph.nodes.values() for act in (node.step, node.call, node.wait) if act is not None)
    return graph.failure_policy == "compensate" or any(act.on_failure == "compensate" for act in acts)

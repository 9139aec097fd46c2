"""Tells which open runs could not go on with a folder's code, before it is deployed.

A durable function's history is replayed. A graph's run keeps the definition that it began with, so what it needs is the
code of the steps that it may still come to. A redrive of a failed one takes the folder's definition, so it needs the
step that failed, and those after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from stepwell.definition.checks import taken
from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import CALLS, Graph, Node
from stepwell.engine.records import ROOT, End, Goto, Record, Status
from stepwell.engine.redriving import kept_of
from stepwell.engine.stored.codec import decode_record
from stepwell.errors import Conflict, StepwellError
from stepwell.local.replaying import Difference, Export, is_function, replay
from stepwell.project import project_of
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.steps.registry import Registry, UnknownStepError
from stepwell.values import dataclass

FAILED = frozenset({Status.FAILED, Status.TIMED_OUT})  # a redrive is for these
_ELSEWHERE = (*CALLS, "workflow:", "stepwell:")  # steps whose code is not the folder's


class Verdict(StrEnum):
    """What becomes of an open run when the code is deployed."""

    COMPATIBLE = "compatible"
    KEEPS = "keeps its definition"  # and the code of its steps is there
    PATCH = "needs a patch"
    INPUT = "refuses its input"
    GONE = "lacks code"
    REDRIVABLE = "can be redriven"
    STEP_GONE = "lacks its step"
    NO_REDRIVE = "cannot be redriven"  # with any definition
    UNKNOWN = "not checked"

    @property
    def would_stick(self) -> bool:
        """Returns whether the run could not go on, as far as is known."""
        return self not in {Verdict.COMPATIBLE, Verdict.KEEPS, Verdict.REDRIVABLE, Verdict.NO_REDRIVE}


@dataclass(frozen=True, slots=True)
class Gated:
    """An open run, or one that failed, and its verdict.

    `where`: the token and record where the code and the history part.
    """

    run_id: str
    workflow: str
    verdict: Verdict
    why: str = ""
    where: Difference | None = None

    def __str__(self) -> str:
        return f"{self.run_id} ({self.workflow}) {self.verdict}{f': {self.why}' if self.why else ''}"


def gated(export: Export, folder: Path) -> Gated:
    """Returns what becomes of a run with the folder's code. Runs no step."""
    workflow, status = str(export.run["workflow"]), Status(export.run["status"])
    if status.terminal and status not in FAILED:
        return Gated(export.run_id, workflow, Verdict.COMPATIBLE, "it has ended")
    try:
        if status in FAILED:
            return _redriven(export, folder)
        return _of_function(export, folder) if is_function(export) else _of_graph(export, folder)
    except StepwellError as error:
        return Gated(export.run_id, workflow, Verdict.UNKNOWN, error.message)


def _of_function(export: Export, folder: Path) -> Gated:
    replayed = replay(export, folder, is_whole=False)
    difference = replayed.difference
    if difference is None:
        return Gated(replayed.run_id, replayed.workflow, Verdict.COMPATIBLE, replayed.stands)
    verdict = Verdict.PATCH if difference.expected else Verdict.GONE if difference.slot is None else Verdict.INPUT
    return Gated(replayed.run_id, replayed.workflow, verdict, str(difference), difference)


def _of_graph(export: Export, folder: Path) -> Gated:
    graph = compile_document(export.definition, trusted=True)
    registry = Registry(folder, project_of(folder).paths)
    workflow = str(export.run["workflow"])
    if lacking := _lacking(registry, _code_of(graph, _standing(graph, export))):
        return Gated(export.run_id, workflow, Verdict.GONE, lacking)
    return Gated(export.run_id, workflow, Verdict.KEEPS, "with which it began")


def _redriven(export: Export, folder: Path) -> Gated:
    """What a redrive of a failed run on the folder's definition would meet."""
    workflow = str(export.run["workflow"])
    if is_function(export):
        found = _of_function(export, folder)
        is_fit = found.verdict is Verdict.COMPATIBLE
        return replace(found, verdict=Verdict.REDRIVABLE, why="") if is_fit else found
    try:
        kept = kept_of(export.run_id, [decode_record(body) for body in export.logs.get(ROOT, ())])
    except Conflict as refused:
        return Gated(export.run_id, workflow, Verdict.NO_REDRIVE, refused.message)
    graph = next((one for one in load_folder(folder).graphs if one.name == workflow), None)
    if graph is None:
        return Gated(export.run_id, workflow, Verdict.STEP_GONE, f"the folder has no workflow {workflow}")
    if kept.node and kept.node not in graph.nodes:
        why = f"{kept.node}, at which it failed: redrive it `--from` another, or with `--version`"
        return Gated(export.run_id, workflow, Verdict.STEP_GONE, why)
    registry = Registry(folder, project_of(folder).paths)
    lacking = _lacking(registry, _code_of(graph, {kept.node or graph.start}))
    return Gated(export.run_id, workflow, Verdict.GONE if lacking else Verdict.REDRIVABLE, lacking)


def _lacking(registry: Registry, needed: Iterable[str]) -> str:
    """Tells the first function that cannot be loaded, and why; "" if all can."""
    for run in sorted(set(needed)):
        try:
            registry.function(run)
        except UnknownStepError as error:
            return error.message
        except Exception as error:  # of any type: an import runs users' code
            return f"{run}: {type(error).__name__}: {error}"
    return ""


def _standing(graph: Graph, export: Export) -> set[str]:
    """Returns the nodes where the run's live tokens are."""
    last = [decode_record(bodies[-1]) for bodies in export.logs.values() if bodies]
    return {_node(one) for one in last if not isinstance(one.next, End)} - {""} or {graph.start}


def _node(record: Record) -> str:
    return record.next.node if isinstance(record.next, Goto) else record.node


def _code_of(graph: Graph, standing: set[str]) -> Iterator[str]:
    """Yields the folder's code that a run may still need: of the nodes ahead, and of all compensations."""
    names = _ahead(graph, standing)
    for name, node in graph.nodes.items():
        for step in (node.step if name in names else None, node.compensate):
            if step is not None and not step.run.startswith(_ELSEWHERE):
                yield step.run


def _ahead(graph: Graph, standing: set[str]) -> set[str]:
    found: set[str] = set()
    left = [*standing]
    while left:
        name = left.pop()
        node = graph.nodes.get(name)
        if node is None or name in found:
            continue
        found.add(name)
        left += _following(node)
    return found


def _following(node: Node) -> list[str]:
    return [rule.to for rule in taken(node) if rule.to] + [*node.members, *([node.join] if node.join else ())]

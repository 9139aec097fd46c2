"""Guidelines as lint, which never stops anything: approvals, compensations, threads.

Whether a step changes something is told by the first word of its function's name, or by its HTTP method.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Graph, Node, Step, Wait
from stepwell.definition.wait_schemas import keys_of

_READS = frozenset(
    ("analyze", "analyse", "calculate", "check", "compute", "count", "estimate", "fetch", "find", "get", "head", "list",
     "lookup", "query", "read", "search", "show", "validate", "verify")
)  # fmt: skip
_FINAL = frozenset(
    ("delete", "destroy", "drop", "erase", "pay", "payout", "purge", "terminate", "transfer", "wipe", "wire")
)
_HTTP = re.compile(r"http:\s*([A-Za-z]+)")


def lint_guidelines(context: Context, graph: Graph, paths: Mapping[str, str]) -> None:
    """Warns of final steps that nobody approved, of compensations of reads, and of answers from any thread."""
    unapproved = _unapproved(graph)
    for name, node in graph.nodes.items():
        if any(wait.window is not None and wait.key is None for wait in _waits_of(node)):
            message = f"`{name}` waits in no thread: it takes any message without a key as the answer"
            hint = "write threadId: the key that the sender gives the event"
            context.add("response_without_thread", message, paths[name], hint, severity="warning")
        if node.step is None:
            continue
        verb = _verb(node.step)
        if verb in _FINAL and node.compensate is None and name in unapproved:
            message = f"`{name}` cannot be undone, and nobody approves it"
            hint = "add a node before it with wait: {for: approval}, or give it a `compensate`"
            context.add("final_without_approval", message, paths[name], hint, severity="warning")
        if verb in _READS and node.compensate is not None:
            message = f"`{name}` seems to read only, and has a compensation"
            hint = "only a step that changes something needs one: remove it, or name the function by what it changes"
            context.add("compensation_of_a_read", message, paths[name], hint, severity="warning")


def _waits_of(node: Node) -> tuple[Wait, ...]:
    return () if node.wait is None else node.wait.arms or (node.wait,)


def _verb(step: Step) -> str:
    """The first word of the function's name, or the method of an HTTP step."""
    if method := _HTTP.match(step.run):
        return method[1].lower()
    name = re.split(r"[.:/]", step.run)[-1]
    return re.split(r"[^a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower().lstrip("_"))[0]


def _unapproved(graph: Graph) -> set[str]:
    """The nodes that a run can reach without an approval."""
    members = graph.first.members
    if members:
        return _without(graph, members)
    reached: set[str] = set()
    waiting = [graph.start]
    while waiting:
        name = waiting.pop()
        if name not in graph.nodes or name in reached or _approves(graph.nodes[name]):
            continue
        reached.add(name)
        waiting += [rule.to for rule in graph.nodes[name].rules if rule.to is not None]
    return reached


def _without(graph: Graph, members: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The steps of a DAG that depend on no approval."""
    approved = {name for name in members if _approves(graph.nodes[name])}
    grown = True
    while grown:
        more = {name for name, before in members.items() if approved & {*before}}
        grown = not more <= approved
        approved |= more
    return {*members} - approved


def _approves(node: Node) -> bool:
    return any("approvers" in keys_of(wait.kind) for wait in _waits_of(node))

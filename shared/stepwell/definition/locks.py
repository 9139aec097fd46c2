"""Compiles the lock that a run holds from before its first node to its end."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.common import Context
from stepwell.definition.graph import Expression, Json, Node

_KNOWN = frozenset({"input", "run", "now"})  # before the first step


def lock_of(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> Expression | None:
    """None where there is none, or none that could be compiled.

    A run takes all that it holds at once, in one order: so that of two runs none waits for the other for good.
    """
    if "lock" not in document:
        return None
    context.variables = "actions" in document
    lock = context.template(document, "lock", "")
    context.variables = False
    unknown = sorted(lock.names - _KNOWN) if lock is not None and "actions" not in document else []
    if unknown:
        message = f"the run's lock is taken before its first step, when there is no `{unknown[0]}`"
        context.add("bad_lock", message, "/lock", "name it from `input`, or lock the steps themselves")
    both = next((node.name for node in nodes.values() if node.lock is not None), None)
    if both is not None:
        message = f"the run holds a lock, and `{both}` asks for one more: two such runs could wait for each other"
        context.add("bad_lock", message, "/lock", "name all locks here, or none")
    return lock

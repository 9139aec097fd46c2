"""Compiles the lock that a run holds from before its first node to its end."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json, Node

_KNOWN = frozenset({"input", "run", "now"})  # the names that exist before the first step


def lock_of(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> Expression | None:
    """Compiles the run's lock; None if there is none or it has errors.

    A run acquires all its locks at once and in one order, so two runs cannot deadlock.
    """
    if "lock" not in document:
        return None
    context.variables = "actions" in document
    lock = context.template(document, "lock", "")
    context.variables = False
    unknown = sorted(lock.names - _KNOWN) if lock is not None and "actions" not in document else []
    if unknown:
        message = f"the run's lock is taken before its first step, so it cannot read `{unknown[0]}`"
        context.add("bad_lock", message, "/lock", "compute it from `input`, or lock the steps instead")
    both = next((node.name for node in nodes.values() if node.lock is not None), None)
    if both is not None:
        message = f"the run holds a lock, and `{both}` asks for another: two such runs could deadlock"
        context.add("bad_lock", message, "/lock", "put all locks here, or none")
    return lock

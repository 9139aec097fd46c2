"""Compiles the limits of a workflow: how many of its runs are under way at once, and how many begin in a time."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.common import Context
from stepwell.definition.graph import Concurrency, Expression, Json, RateLimit

_KNOWN = frozenset({"input", "run"})  # the names that are the same whenever the key is computed


def concurrency_of(context: Context, document: Mapping[str, Json]) -> Concurrency | None:
    """Compiles `concurrency`, or `singleton`, its short form; None if there is none."""
    given = document.get("concurrency")
    if "singleton" in document:
        if given is not None:
            message = "`singleton` is a `concurrency` of 1, and this workflow has both"
            context.add("conflict", message, "/singleton", "keep one of them")
        on_limit = "cancel_oldest" if document["singleton"].get("mode") == "cancel" else "cancel_newest"
        return Concurrency(1, _key(context, document, "singleton"), on_limit)
    if given is None or "limit" not in given:  # what is wrong was cut out of the document
        return None
    key = _key(context, document, "concurrency")
    return Concurrency(given["limit"], key, given.get("on_limit", "queue"))


def rate_limit_of(context: Context, document: Mapping[str, Json]) -> RateLimit | None:
    """Compiles `rate_limit`; None if there is none or its time is wrong."""
    given = document.get("rate_limit")
    if given is None:
        return None
    per_ms = context.duration_ms(given, "per", "/rate_limit")
    if per_ms is not None and per_ms < 1:
        context.add("bad_value", "`per` is no time", "/rate_limit/per", "write a duration, such as 1m")
    if not per_ms or "limit" not in given:
        return None
    key = _key(context, document, "rate_limit")
    return RateLimit(given["limit"], per_ms, given.get("burst", 1), key)


def _key(context: Context, document: Mapping[str, Json], limit: str) -> Expression | None:
    """Compiles a limit's key, which is computed again when a run ends, so that it must not depend on the time."""
    context.variables = "actions" in document
    key = context.template(document[limit], "key", f"/{limit}")
    context.variables = False
    unknown = sorted(key.names - _KNOWN) if key is not None and "actions" not in document else []
    if unknown:
        message = f"the key of `{limit}` is computed before the first step, so it cannot read `{unknown[0]}`"
        context.add("bad_limit", message, f"/{limit}/key", "compute it from `input`")
    return key

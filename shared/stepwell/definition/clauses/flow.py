"""Compiles the flow control of a workflow: its limits, and which of its starts become one run."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import END, Concurrency, Gathering, Json, Node, RateLimit
from stepwell.limits import YEAR_MS

_KNOWN = frozenset({"input", "run"})  # the names that are the same whenever the key is computed
_PERIODS = 10  # of a debounce: its longest delay, where it names none


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
    return Concurrency(given["limit"], key, given.get("on_limit", "queue"), given.get("while_waiting", "hold"))


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


def gathering_of(context: Context, document: Mapping[str, Json]) -> Gathering | None:
    """Compiles `debounce` or `batch`; None if there is none or its times are wrong."""
    mode = next((name for name in ("debounce", "batch") if name in document), None)
    if mode is None:
        return None
    if "debounce" in document and "batch" in document:
        message = "`debounce` keeps the last input and `batch` all of them, and this workflow has both"
        context.add("conflict", message, "/batch", "keep one of them")
    if document.get("start") == "manual":
        message = f"`start: manual` makes idle runs, and the starts of a `{mode}` become one run"
        context.add("conflict", message, "/start", "keep one of them")
    given, path = document[mode], f"/{mode}"
    period_ms = _time(context, given, "period", path) or 0
    max_delay_ms = _time(context, given, "max_delay", path) or period_ms * _PERIODS
    if period_ms > max_delay_ms:
        message = "`max_delay` is shorter than `period`, so the period would never pass"
        context.add("bad_value", message, f"{path}/max_delay", "write a longer max_delay, or leave it out")
    if not max_delay_ms or (mode == "batch" and "max_size" not in given):
        return None
    key = _key(context, document, mode, frozenset({"input"}))
    return Gathering(mode, max_delay_ms, period_ms, given.get("max_size", 0), key)


def max_cost_of(context: Context, document: Mapping[str, Json]) -> float | None:
    """Compiles `max_cost`; None if there is none."""
    given = document.get("max_cost")
    if given is not None and "steps" in document:
        message = "`max_cost` is looked at before each step of the run itself, and `steps` run beside each other"
        context.add("conflict", message, "/max_cost", "leave it out, or write the steps as a `timeline` or `nodes`")
    return given


def durability_of(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> str:
    """Compiles `durability`. It is an error where no step can wait for another, and a warning where none does."""
    given = str(document.get("durability", "step"))
    if given == "step":
        return given
    other = next((key for key in ("steps", "function") if key in document), "")
    if other:
        why = {"steps": "`steps` run beside each other, and each is waited for by others",
               "function": "a durable function's operations are written one by one"}[other]  # fmt: skip
        context.add("conflict", why, "/durability", "leave `durability` out")
    elif "max_cost" in document:
        message = "before each step of a run with `max_cost` the log is read, so its records are written one by one"
        context.add("conflict", message, "/durability", "leave one of the two out")
    elif not any(_may_wait(node) for node in nodes.values()):
        message = "no step's record waits for another's: `durability: batch` changes nothing"
        hint = "steps with `compensate` or `at_most_once`, waits and ends are written at once"
        context.add("no_batch", message, "/durability", hint, "warning")
    return given


def _may_wait(node: Node) -> bool:
    """Tells whether a record of this node's step may wait for the next one's."""
    goes_on = any(rule.to not in ("", END) for rule in node.rules)
    return node.step is not None and node.compensate is None and not node.step.at_most_once and goes_on


def _time(context: Context, given: Mapping[str, Json], name: str, path: str) -> int | None:
    """Compiles a time of a gathering: from a millisecond to a year."""
    time_ms = context.duration_ms(given, name, path)
    if time_ms is not None and not 1 <= time_ms <= YEAR_MS:
        context.add("bad_value", f"`{name}` is not between a millisecond and a year", f"{path}/{name}", "such as 30s")
    return time_ms


def _key(
    context: Context, document: Mapping[str, Json], limit: str, known: frozenset[str] = _KNOWN
) -> Expression | None:
    """Compiles a limit's key, which is computed again when a run ends, so that it must not depend on the time."""
    context.variables = "actions" in document
    key = context.template(document[limit], "key", f"/{limit}")
    context.variables = False
    unknown = sorted(key.names - known) if key is not None and "actions" not in document else []
    if unknown:
        message = f"the key of `{limit}` is computed before the first step, so it cannot read `{unknown[0]}`"
        context.add("bad_limit", message, f"/{limit}/key", "compute it from `input`")
    return key

"""Compares what a schedule gives its runs with the parameters of the function that a run begins with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwell.definition.code.modules import Code, Function
from stepwell.definition.code.signatures import missing_input
from stepwell.definition.graph import Graph, ScheduleTrigger
from stepwell.definition.loader import Loaded
from stepwell.errors import ExpressionError, Problem
from stepwell.runtime.starts.scheduled import input_at

_SCHEME = "python:"


def unfit_firings(graph: Graph, code: Code, written: Mapping[str, tuple[Path, Loaded]]) -> Iterator[Problem]:
    """Yields a problem for each schedule whose runs fail at their start, because the input lacks a parameter.

    `written`: the definitions' files, by the names of their workflows. Else it is where its function is.
    """
    function = _begins_with(graph, code)
    for number, trigger in enumerate(graph.schedules if function is not None else ()):
        if function is not None and (why := _lacks(function, trigger)):
            message = f"no run of the schedule {trigger.expression} can begin: {why}"
            hint = 'give the trigger an `input`, such as {NAME: "{{ event.scheduled_at }}"}'
            if graph.name in written:
                file, loaded = written[graph.name]
                place = f"/triggers/{_place(graph, number)}"
                yield loaded.placed(Problem("unfit_schedule", message, place, hint), str(file))
            else:
                yield Problem("unfit_schedule", message, "", hint, function.module.file, function.node.lineno)


def _begins_with(graph: Graph, code: Code) -> Function | None:
    """The function whose parameters are filled from the run's input alone; None if there is none, or it is unknown."""
    step = graph.first.step
    path = graph.code or (step.run if step is not None and step.input is None else "")
    home, _, name = path.removeprefix(_SCHEME).rpartition(".")
    module = code.modules.get(home) if path.startswith(_SCHEME) else None
    return module.functions.get(name) if module is not None else None


def _lacks(function: Function, trigger: ScheduleTrigger) -> str:
    try:
        given = input_at(trigger, time.time_ns() // 1_000_000)
    except ExpressionError:
        return ""  # its input cannot be computed now, and may be then
    if not isinstance(given, dict) or not (why := missing_input(function.node, given.keys())):
        return ""
    return f"{why}, and its input has {', '.join(given) or 'nothing'}"


def _place(graph: Graph, number: int) -> int:
    """The place of a schedule among the triggers as they are written, events among them."""
    written = graph.document.get("triggers")
    places = [at for at, one in enumerate(written if isinstance(written, list) else ()) if "schedule" in (one or {})]
    return places[number] if number < len(places) else 0

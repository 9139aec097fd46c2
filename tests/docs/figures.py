"""Draws tables of docs/ from what benchmarks keep: benchmarks/figures.json, journeys.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.docs.tables import table

FIGURES = Path(__file__).resolve().parents[2] / "benchmarks" / "figures.json"
_CASES = {
    "chain 10": "chain of 10", "chain 100": "chain of 100", "fan 100": "fan-out of 100", "fan 1000": "fan-out of 1,000",
    "event 1": "event to end", "tail 1": "end of a step to its result", "late 1": "sleep of 1 s, late by",
}  # fmt: skip


def machine() -> str:
    """Where and when it was measured."""
    kept = _kept()
    of = kept["machine"]
    where = f"on {of['cores']} cores of {of['processor']}, with Python {of['python']}"
    return f"Measured on {kept['on']}, {where}: medians of {kept['rounds']} rounds in which the programs took turns."


def processor() -> str:
    """CPU of a step or a branch, and theirs as a multiple of ours."""
    return _compared("cpu_ms", ["chain 10", "chain 100", "fan 100", "fan 1000"])


def elapsed() -> str:
    """Wall time of the same, of an event to the end of its run, of a run's tail, and of a timer behind its time."""
    return _compared("wall_ms", list(_CASES))


def durabilities() -> str:
    """What is durable when a step has been committed, and what an import costs."""
    rows = [[one["name"], one["durability"], f"{one['import_ms']:.0f} ms"] for one in _kept()["programs"]]
    return table(["", "what is durable", "CPU of the import"], rows)


def journeys() -> str:
    """How long the first commands take, beside pip alone; `tests/wheel/test_journeys.py` measures it."""
    kept = json.loads((FIGURES.parent / "journeys.json").read_text(encoding="utf-8"))
    names = {"local": "a run on your machine", "deployed": "a run on a deployed stack, in the emulator"}
    rows = [[text, str(kept[name]["commands"]), f"{kept[name]['ratio']:.2f}"] for name, text in names.items()]
    return table(["from an empty folder to", "commands", "times as long as `pip install` alone"], rows)


def _compared(kind: str, cases: list[str]) -> str:
    programs = _kept()["programs"]
    ours = programs[0]["cases"]
    rows = [[one["name"], *(_cell(one["cases"], ours, case, kind) for case in cases)] for one in programs]
    return table(["ms", *(_CASES[case] for case in cases)], rows)


def _cell(cases: dict[str, Any], ours: dict[str, Any], case: str, kind: str) -> str:
    if case not in cases:
        return "-"
    found = cases[case][kind]
    if cases is ours:
        return f"{found:.2f}"
    times = found / ours[case][kind]
    return f"{found:.2f} · {times:.{1 if times >= 0.1 else 2}f} x"


def _kept() -> Any:
    return json.loads(FIGURES.read_text(encoding="utf-8"))

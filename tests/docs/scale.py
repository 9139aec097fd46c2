"""Draws docs/scale.md's tables from the model in benchmarks/scale.py."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from stepwell.prices import Prices
from tests.docs.tables import table

MODEL: dict[str, Any] = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "scale.py"))


def starts() -> str:
    """What a thousand runs a second need of each quota."""
    load = MODEL["Starts"]()
    return table(MODEL["HEAD"], MODEL["rows"](load.uses()))


def items() -> str:
    """A run of a million items, by how long a step takes."""
    loads = [MODEL["Items"](step_seconds=seconds) for seconds in (0.01, 0.1, 1.0)]
    rows = [
        [f"{load.step_seconds:g} s", f"{load.units:,}", f"{load.messages:,}", f"{load.usd(Prices()):.2f}", _time(load)]
        for load in loads
    ]
    return table(["a step takes", "write units", "invocations", "USD, beside the steps' time", "done in about"], rows)


def quotas() -> str:
    """Each quota that a load may meet."""
    rows = [[one.service, one.name, f"{one.most:,}", one.raise_it] for one in MODEL["QUOTAS"]]
    return table(["service", "quota", "a new account has", "to raise it"], rows)


def _time(load: Any) -> str:
    seconds = load.seconds()
    return f"{seconds:,.0f} s" if seconds < 300 else f"{seconds / 60:,.0f} min"

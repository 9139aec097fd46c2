"""The command that says what a workflow's runs cost: here, on Step Functions, and on Lambda durable functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import Memory, ResultAsJson, Url, WorkflowName, option
from stepwell.cli.connect import connect
from stepwell.cli.folders import default_folder
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import counted
from stepwell.prices import SYSTEMS, usd_by_system
from stepwell.settings import read_settings

RUNS = 1_000  # that the figures are for
_SAMPLE = 10


def estimate(
    workflow: WorkflowName,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="How many of its last runs are read.")] = _SAMPLE,
    memory: Memory = 512,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, show_default=False, help="How long an attempt takes; default: as it took."),
    ] = None,
    prices: Annotated[Path | None, option("--prices", "FILE", "Other prices, as YAML or JSON.")] = None,
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Estimate what 1,000 runs of a workflow cost on AWS. Reads its last runs that ended."""
    from stepwell.cli.finding import ended_runs  # noqa: PLC0415 - httpx
    from stepwell.runtime.folder.pricing import prices_for  # noqa: PLC0415 - with the compiler

    table = prices_for(prices or read_settings().prices, default_folder())
    with connect(url) as client:
        ids = ended_runs(client, workflow, runs)
        views = [client.handle(one).view() for one in ids]
    typical = [one for one in views if not _failed_at_once(one)] or views
    used = _mean([one["cost"] for one in typical])
    if seconds is not None:
        used["step_seconds"] = used["steps"] * seconds
    usd = usd_by_system(used, table, memory / 1_024, RUNS)
    found = {"workflow": workflow, "runs": len(typical), "left_out": len(views) - len(typical),
             "usd_per_1000_runs": usd, "per_run": used, "prices": asdict(table)}  # fmt: skip
    if as_json:
        print_json(found)
    else:
        _show(found)


def _failed_at_once(run: Mapping[str, Any]) -> bool:
    """Tells whether a run failed before any step of it completed: it cost a fraction of what a run costs."""
    steps = run["steps"].values()
    has_completed = any(
        step["status"] == "completed" or (step.get("branches") or {}).get("completed") for step in steps
    )
    return run["status"] == "failed" and not has_completed


def _mean(costs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the mean of several ledgers, without what is no count."""
    names = [name for name, value in costs[0].items() if isinstance(value, int | float) and name != "usd"]
    return {name: sum(cost[name] for cost in costs) / len(costs) for name in names}


def _show(found: dict[str, Any]) -> None:
    out, used = console(), found["per_run"]
    out.print(f"1,000 runs of {found['workflow']}, by its last {found['runs']}:")
    if left_out := found["left_out"]:
        out.print(f"Left out: {counted(left_out, 'runs')} that failed before a step completed.")
    for name, title in SYSTEMS.items():
        out.print(f"  {title:<26}{found['usd_per_1000_runs'][name]:>10.4f} USD")
    parts = {"write_units": "write units", "read_units": "read units", "invocations": "messages",
             "schedules": "schedules", "steps": "attempts", "waits": "waits",
             "step_seconds": "seconds in steps"}  # fmt: skip
    told = ", ".join(counted(used[name], title) for name, title in parts.items() if used[name])
    out.print(f"A run here: {told}.", soft_wrap=True)
    out.print(f"Prices as of {found['prices']['as_of']}: {found['prices']['source']}.", soft_wrap=True)

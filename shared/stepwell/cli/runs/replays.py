"""`stepwell export` and `stepwell replay`: a run's stored history, and its replay with today's code."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import ErrorsAsJson, ResultAsJson, RunId, Url, argument, option
from stepwell.cli.completing import complete_run
from stepwell.cli.connect import connect
from stepwell.cli.folders import existing_folder
from stepwell.cli.hushing import aside
from stepwell.cli.screen import console, print_json
from stepwell.errors import UserError

if TYPE_CHECKING:
    from stepwell.local.replaying import Export


def export(
    run_id: RunId,
    to: Annotated[Path | None, option("--to -o", "FILE", "Where to write it; default standard output.")] = None,
    as_json: ErrorsAsJson = False,
    url: Url = "",
) -> None:
    """Export a run for a replay, as JSON Lines. Holds its facts and the records of all its tokens."""
    with connect(url) as client:
        lines = [json.dumps(line) for line in client.handle(run_id).export()]
    if to is None:
        for line in lines:
            typer.echo(line)
        return
    to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def replay(
    what: Annotated[str, argument("RUN|FILE", "A run's id, an export, or a folder of them.", complete_run)],
    folder: Annotated[
        Path | None,
        option("--folder -f", "FOLDER", "Workflow folder; default the project's, else `workflows/`, else `.`."),
    ] = None,
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Replay a durable function's history against today's code. Exit status 1: they differ. Runs no step."""
    from stepwell.local.replaying import is_function, replay  # noqa: PLC0415 - with the compiler

    chosen = existing_folder(folder)
    found = _exports(what, url)
    functions = [one for one in found if is_function(one)]
    if not functions:
        told = f"{found[0].run_id} is a run of a graph" if len(found) == 1 else f"{what} has only runs of graphs"
        raise UserError(f"{told}; a replay needs a durable function", code="not_a_function",
                        hint="a graph's run keeps the definition that it began with")  # fmt: skip
    with aside():
        replayed = [replay(one, chosen) for one in functions]
    if as_json:
        print_json([asdict(one) for one in replayed])
    else:
        for one in replayed:
            console().print(str(one), style="red" if one.difference else "green", soft_wrap=True)
        if len(found) > len(functions):
            typer.echo(f"skipped {len(found) - len(functions)} runs of graphs", err=True)
    if any(one.difference for one in replayed):
        raise typer.Exit(exits.FAILED)


def _exports(what: str, url: str) -> list[Export]:
    """Reads the exports from disk, or else from the API."""
    from stepwell.local.replaying import exported, read_exports  # noqa: PLC0415 - with the compiler

    if not what:  # as a path, it would be this folder
        hint = "name a run, an export, or a folder of them"
        raise UserError("the run or file is empty: it names nothing to replay", code="bad_usage", hint=hint)
    if Path(what).exists() or what.endswith(".jsonl") or len(Path(what).parts) > 1:
        return read_exports(Path(what))
    with connect(url) as client:
        return [exported(client.handle(what).export(), f"run {what}")]

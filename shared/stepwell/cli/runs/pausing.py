"""The commands that pause a run, a workflow or all workflows, and have them go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.arguments import AsJson, By, Reason, Url, argument
from stepwell.cli.completing import complete_run_or_workflow
from stepwell.cli.connect import connect, person, there
from stepwell.cli.runs.acts import id_of
from stepwell.cli.screen import report
from stepwell.cli.views.words import local_times, pause_text

if TYPE_CHECKING:
    from stepwell.client import Client
    from stepwell.client.errors import JsonObject

Name = Annotated[
    str,
    argument(
        "RUN|WORKFLOW", "A workflow's name, or a run's id, its beginning or end, or last.", complete_run_or_workflow
    ),
]
All = Annotated[bool, typer.Option("--all", help="All workflows, instead of one.")]


def pause(
    name: Name = "", every: All = False, reason: Reason = "", by: By = "", as_json: AsJson = False, url: Url = ""
) -> None:
    """Stop a run before its next step, or all runs of a workflow."""
    _check(name, every)
    from stepwell.cli.finding import workflow_or_run  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found, is_run = workflow_or_run(
            name,
            lambda: (client.pause_workflow(name, reason, by=person(by)), False),
            lambda: (client.handle(name).pause(reason, by=person(by)), True),
        )
    report(found, as_json, _paused_words(found, name, is_run=is_run))


def _paused_words(found: JsonObject, name: str, *, is_run: bool) -> str:
    """`paused run_1`, or `run_1 was paused already, by ana since …: the bank is down`."""
    if found.get("paused_before") and is_run:
        how = str(found.get("pending_reason") or "").removeprefix("paused ")
        return f"{id_of(found, name)} was paused already" + (f", {local_times(how, datetime.now(UTC))}" if how else "")
    if found.get("paused_before"):
        return f"nothing was changed: {pause_text(found)}"
    return f"paused {id_of(found, name)}" if is_run else f"paused {_what(name)}: each stops before its next step"


def unpause(name: Name = "", every: All = False, by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Have a paused run go on, or the runs of a paused workflow."""
    _check(name, every)
    from stepwell.cli.finding import workflow_or_run  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found, is_run = workflow_or_run(
            name,
            lambda: (client.unpause_workflow(name, by=person(by)), False),
            lambda: (client.handle(name).unpause(by=person(by)), True),
        )
        held = [] if as_json else _held(client, id_of(found, name) if is_run else "", name)
    report(found, as_json, _on_words(f"{id_of(found, name)} is" if is_run else f"{_what(name)} are", name, held))


def _held(client: Client, run_id: str, workflow: str) -> Sequence[Mapping[str, Any]]:
    """The pauses that still hold the run, the workflow, or some of all workflows, of which another has just ended."""
    if not workflow:
        return client.stats().get("paused") or ()
    pause = (
        client.handle(run_id).explain().get("workflow_paused") if run_id else client.workflow(workflow).get("paused")
    )
    return (pause,) if pause else ()


def _on_words(who: str, name: str, held: Sequence[Mapping[str, Any]]) -> str:
    """Says that the runs go on, or which do not: `run_1 is`, `the runs of order are` or `all runs are`."""
    if held and name:
        return f"{who} still held: {_held_words(held[0])}"
    subject, _, verb = who.rpartition(" ")
    left = "".join(f"\nexcept that {_held_words(pause)}" for pause in held)
    return f"{subject} {'go' if verb == 'are' else 'goes'} on{left}"


def _held_words(pause: Mapping[str, Any]) -> str:
    """Says which pause is left: `order is paused since …; end that pause with: stepwell unpause order`."""
    named = "--all" if pause["workflow"] == "*" else pause["workflow"]
    return f"{pause_text(pause)}; end that pause with: {there(f'stepwell unpause {named}')}"


def _what(name: str) -> str:
    return f"the runs of {name}" if name else "all runs"


def _check(name: str, every: bool) -> None:
    if bool(name) == every:
        raise typer.BadParameter("name a run or a workflow, or take --all", param_hint="RUN|WORKFLOW")

"""Shell completion of names, run ids and statuses. `stepwell --install-completion` turns it on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from stepwell.cli.connect import LAST, connect
from stepwell.cli.folders import chosen_folder
from stepwell.engine.records import Status
from stepwell.errors import StepwellError

T = TypeVar("T")

RUNS = 50  # the newest ones
DELIVERIES = 500  # the newest ones, for the names of their sources
STATUSES = tuple(status.value for status in Status)
WAITS = (  # what a run may wait for
    *("approval", "event", "response", "callback", "document", "signature", "test", "delay", "sleep"),
    *("children", "agent", "lock", "limit", "code", "any", "all", "tasks"),
)


def complete_run(incomplete: str) -> list[tuple[str, str]]:
    """Completes the id of one of the newest runs, from its beginning."""
    return [one for one in _quietly(_runs()) if one[0].startswith(incomplete)]


def complete_workflow(incomplete: str) -> list[str]:
    """Completes the name of a deployed workflow."""
    return [one for one in _quietly(_workflows()) if one.startswith(incomplete)]


def complete_run_or_workflow(incomplete: str) -> list[str]:
    """Completes a run's id, or the name of a deployed workflow."""
    found = [run for run, _ in _quietly(_runs())]
    return [one for one in [*_quietly(_workflows()), *found] if one.startswith(incomplete)]


def complete_schedule(incomplete: str) -> list[str]:
    """Completes the name of a schedule."""
    return [one for one in _quietly(_schedules()) if one.startswith(incomplete)]


def complete_limit(incomplete: str) -> list[str]:
    """Completes the name of a limit. A workflow and a limit of steps may share one."""
    return [one for one in dict.fromkeys(_quietly(_limits())) if one.startswith(incomplete)]


def complete_source(incomplete: str) -> list[str]:
    """Completes the name of a source of webhooks in the workflow folder."""
    return [one for one in _quietly(_sources()) if one.startswith(incomplete)]


def complete_kept_source(incomplete: str) -> list[str]:
    """Completes the name of a source of which the API has deliveries."""
    return [one for one in dict.fromkeys(_quietly(_kept_sources())) if one.startswith(incomplete)]


def complete_status(incomplete: str) -> list[str]:
    """Completes a status of runs."""
    return [status for status in STATUSES if status.startswith(incomplete)]


def complete_wait(incomplete: str) -> list[str]:
    """Completes the kind of a wait."""
    return [kind for kind in WAITS if kind.startswith(incomplete)]


def _runs() -> Iterator[tuple[str, str]]:
    yield LAST, "the newest run"
    with connect("") as client:
        for run in client.runs().page(RUNS).items:
            yield str(run["run_id"]), f"{run.get('workflow')}, {run.get('status')}"


def _workflows() -> Iterator[str]:
    with connect("") as client:
        yield from (str(found["name"]) for found in client.workflows())


def _schedules() -> Iterator[str]:
    with connect("") as client:
        yield from (str(found["name"]) for found in client.schedules())


def _limits() -> Iterator[str]:
    with connect("") as client:
        yield from (str(found["name"]) for found in client.limits())


def _sources() -> Iterator[str]:
    from stepwell.runtime.folder.loading import load_webhooks  # noqa: PLC0415 - with the compiler

    found = load_webhooks(chosen_folder(None)).document or {}
    yield from found.get("sources") or ()


def _kept_sources() -> Iterator[str]:
    with connect("") as client:
        yield from (str(found["source"]) for found in client.deliveries().page(DELIVERIES).items)


def _quietly(found: Iterator[T]) -> Iterator[T]:
    """Ends at an error: a shell that completes has no place to show one."""
    try:
        yield from found
    except StepwellError:
        return

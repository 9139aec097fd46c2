"""Shell completion of workflows, run ids and statuses. `stepwell --install-completion` turns it on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from stepwell.cli.connect import LAST, connect
from stepwell.engine.records import Status
from stepwell.errors import StepwellError

T = TypeVar("T")

RUNS = 50  # the newest ones
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


def _quietly(found: Iterator[T]) -> Iterator[T]:
    """Ends at an error: a shell that completes has no place to show one."""
    try:
        yield from found
    except StepwellError:
        return

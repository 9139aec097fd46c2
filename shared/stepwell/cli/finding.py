"""Finds what a command names: a run by a part of its id or `last`; a workflow, else a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import typer

from stepwell.cli.connect import LAST, about, there
from stepwell.client import Client, calls
from stepwell.client.access import Kind
from stepwell.client.errors import ApiProblem, NotFoundProblem
from stepwell.client.exchange import Answer, Pause, longest_wait
from stepwell.client.requests import Flow, Request
from stepwell.errors import NotFound, UserError

T = TypeVar("T")

NEWEST = 500  # runs among which a part of an id is looked for
READ_SECONDS = 30.0  # for which a server may be silent before the command fails
SILENT_SECONDS = 5.0  # before the command says that it waits for it
LAST_AMONG = 10  # the newest runs among which `last` is
OWN = "stepwell:"  # begins the names of Stepwell's own workflows
_NOT_SEARCHED = (
    f"only the newest {NEWEST} runs were searched: give the whole id; stepwell runs --before 7d lists older ones"
)


class FindingClient(Client):
    """Looks for a run among the newest ones when the API knows none of the given id."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._api.read_seconds = READ_SECONDS
        self._has_told = False  # that the server is silent
        self._found: dict[str, str] = {}  # by what was given

    @property
    def is_named(self) -> bool:
        """Whether the API knows the caller's name from the credentials, as a deployed one with IAM or JWTs does."""
        kind = self._api.access.kind
        return kind is Kind.SIGNED or (kind is Kind.TOKEN and not self._api.local)  # `stepwell dev` reads no token

    def send(self, asked: Request[T] | Flow[T]) -> T:
        if not isinstance(asked, Request) or not (given := _run_in(asked.path)):
            return super().send(asked)
        if given == LAST and given not in self._found:
            self._found[given] = self._newest()
        about(self._found.get(given, given))
        if given in self._found:
            return super().send(_about(asked, given, self._found[given]))
        try:
            return super().send(asked)
        except NotFoundProblem as missing:
            whole, more = "", False
            if missing.code == "unknown_run":
                with suppress(ApiProblem):  # no list, no help: the first refusal stands
                    whole, more = self._matching(given)
            if more and not whole:
                raise NotFoundProblem(missing.status, {**missing.problem, "hint": _NOT_SEARCHED}) from None
            if not whole:
                raise
        self._found[given] = whole
        about(whole)
        return super().send(_about(asked, given, whole))

    def _take(self, step: Request[Any] | Pause) -> Answer | None:
        if isinstance(step, Pause):
            return super()._take(step)
        with self._telling(longest_wait(step) + SILENT_SECONDS):
            return super()._take(step)

    @contextmanager
    def _telling(self, seconds: float) -> Iterator[None]:
        """Says on stderr, once, that the server has not answered within these seconds."""
        timer = threading.Timer(seconds, self._tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _tell(self) -> None:
        if not self._has_told:
            self._has_told = True
            typer.echo(f"waiting for the server at {self.url}, which has not answered yet", err=True)

    def whole(self, given: str) -> str:
        """Returns the whole id of a run that this client has asked for by a part of it."""
        return self._found.get(given, given)

    def _newest(self) -> str:
        """The newest run that a user has started: no batch, which is Stepwell's own, and no child run."""
        items = super().send(calls.at(calls.runs(), LAST_AMONG, "")).items
        if not items:
            hint = f"start one: {there('stepwell run WORKFLOW')}"
            raise NotFound("there are no runs", code="unknown_run", hint=hint)
        users = [one for one in items if not str(one["workflow"]).startswith(OWN)]
        parents = {str(one["run_id"]): str(one.get("parent") or "") for one in users or items}
        found = next((run_id for run_id, parent in parents.items() if not parent), next(iter(parents)))
        while parents.get(found):  # all are children, which are later than their parents
            found = parents[found]
        return found

    def _matching(self, given: str) -> tuple[str, bool]:
        """The run whose id begins or ends so, if there is one, and whether older runs were not searched.

        Raises UserError if there are several.
        """
        page = super().send(calls.at(calls.runs(), NEWEST, ""))
        ids = [str(run["run_id"]) for run in page.items]
        made = given.removeprefix("run_")
        found = [one for one in ids if one.removeprefix("run_").startswith(made) or one.endswith(given)]
        if len(found) > 1:
            message = f"{len(found)} runs have an id that begins or ends with {given}: {', '.join(found[:3])}"
            raise UserError(message, code="ambiguous_run", hint="give more of the id")
        return found[0] if found else "", bool(page.next_cursor)


def workflow_or_run(name: str, of_workflow: Callable[[], T], of_run: Callable[[], T]) -> T:
    """The answer for the workflow of this name, else for the run. Raises NotFoundProblem if there is neither."""
    if name == LAST or name.startswith("run_"):
        return of_run()
    try:
        return of_workflow()
    except NotFoundProblem as missing:
        if missing.code != "unknown_workflow":
            raise
        hints = [f"{there('stepwell runs')} lists the runs", missing.hint or ""]
    try:
        return of_run()
    except NotFoundProblem as missing:
        if missing.code != "unknown_run":
            raise
        told = {"detail": f"there is no workflow and no run {name!r}", "hint": "; ".join(filter(None, hints))}
        raise NotFoundProblem(missing.status, {**missing.problem, **told}) from None


def check_workflow(client: Client, workflow: str) -> None:
    """Raises the API's NotFoundProblem for a workflow that is not deployed and of which there is no run."""
    try:
        client.workflow(workflow)
    except NotFoundProblem:
        if not client.runs(workflow=workflow).page(1).items:
            raise


def ended_runs(client: Client, workflow: str, most: int) -> list[str]:
    """The ids of the newest ended runs of a workflow, but for cancelled ones. Raises NotFound if there are none."""
    calls.workflow(workflow)  # refuses an empty name, of which the list would have the runs of all workflows
    ended = calls.runs(workflow=workflow, status=["completed", "compensated", "failed", "timed_out"])
    ids = [str(one["run_id"]) for one in client.send(calls.at(ended, most, "")).items]
    if not ids:
        client.workflow(workflow)  # one that is not there cannot be run either: the API's answer names those that are
        raise NotFound(f"no run of {workflow!r} has ended, so there is nothing to go by", code="no_ended_run",
                       hint=f"run it once: {there(f'stepwell run {workflow} --watch')}")  # fmt: skip
    return ids


def _run_in(path: str) -> str:
    """The run's id in a path, where that can be a part of an id."""
    parts = path.split("/")
    return parts[2] if len(parts) > 2 and parts[1] == "runs" and "%" not in parts[2] else ""


def _about(request: Request[T], given: str, run_id: str) -> Request[T]:
    return replace(request, path=request.path.replace(f"/runs/{given}", f"/runs/{run_id}", 1))

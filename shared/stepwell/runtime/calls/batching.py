"""Batches: one action on all runs of a filter. A batch is a run of the workflow `stepwell:batch`, a page to a step.

    act ── a page of runs ── its report is the step's result: where the next page begins, and counts ── act ── … ── done

Each action may be done twice, so a worker that dies amid a page leaves nothing to undo. Runs created after the batch,
by its own redrives too, are left out: so a page is the same when it is read again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from typing import Protocol

from stepwell import limits
from stepwell.definition.built_in import BATCH, BUILT_IN
from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import TERMINAL, Failure, Pause, Status
from stepwell.errors import EngineFault, InvalidInput, NotFound, PortError, UserError
from stepwell.runtime.calls.erasing import Eraser
from stepwell.runtime.ports import BROKEN_BLOB, Clock
from stepwell.runtime.ports.headers import REDRIVE, Header, RunPage, RunQuery
from stepwell.runtime.starts.starting import Started
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.stores.answers import encode_cursor
from stepwell.values import dataclass

STAGES = (1, 10)  # runs of a canary, one after the other; then the rest
_BEGUN = frozenset({Status.PENDING, Status.RUNNING, Status.WAITING})
STATUSES: Mapping[str, frozenset[Status]] = {  # to which an action applies if the filter names none
    "cancel": frozenset(Status) - TERMINAL - {Status.COMPENSATING},
    "terminate": frozenset(Status) - TERMINAL,
    "pause": _BEGUN,
    "unpause": frozenset({Status.PAUSED}),
    "redrive": frozenset({Status.FAILED, Status.TIMED_OUT}),
    "purge": frozenset(),  # all
}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch request. `rate`: runs per second, 0 for no limit. `force`: also purge runs that have not ended."""

    action: str
    workflow: str = ""
    statuses: list[str] = field(default_factory=list)
    tag: list[str] | None = None  # a name and a value
    since_ms: int = 0
    before_ms: int = 0
    failure: str = ""
    rate: float = 0
    canary: bool = False
    dry_run: bool = False
    force: bool = False
    reason: str = ""
    by: str = ""

    @property
    def query(self) -> RunQuery:
        statuses = frozenset(map(Status, self.statuses)) or STATUSES[self.action]
        tag = None if self.tag is None else (self.tag[0], self.tag[1])
        return RunQuery(self.workflow, statuses, tag, self.since_ms, failure=self.failure)


@dataclass
class Report:
    """The progress of a batch. Between the batch's steps it is the state of its run.

    `first` and `first_refused`: ids of runs. `watched`: the canary's redriven runs, as [the run, its error, the run
    that goes on]. `due_ms`: when the rate permits the next page.
    """

    action: str
    dry_run: bool
    matched: int = 0
    done: int = 0
    unchanged: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    first_refused: list[str] = field(default_factory=list)
    stopped: Json = None
    stage: int = 0
    watched: list[list[str]] = field(default_factory=list)
    watched_since_ms: int = 0
    due_ms: int = 0
    cursor: str = ""
    is_listed: bool = False
    is_over: bool = False


class Acts(Protocol):
    """The service's operations on runs that a batch needs."""

    async def header(self, run_id: str) -> Header: ...
    async def runs(self, query: RunQuery) -> RunPage: ...
    async def cancel(self, run_id: str, reason: str = "", who: str = "") -> bool: ...
    async def terminate(self, run_id: str, reason: str = "", who: str = "") -> bool: ...
    async def pause(self, run_id: str, reason: str = "", who: str = "") -> bool: ...
    async def unpause(self, run_id: str) -> None: ...
    async def redrive(self, run_id: str, since: str = "", version: str = "", who: str = "") -> Started: ...


def check_batch(batch: Batch) -> None:
    """Raises InvalidInput for an empty filter, or for an option that the action does not have."""
    if not (batch.workflow or batch.statuses or batch.tag or batch.since_ms or batch.before_ms or batch.failure):
        raise InvalidInput("the filter names no runs", code="empty_filter",
                           hint="name a workflow, a status, a tag, a failure, since or before when")  # fmt: skip
    if batch.force and batch.action != "purge":
        raise InvalidInput(f"force is for purge, not for {batch.action}", code="no_force",
                           hint="leave `force` out")  # fmt: skip
    if batch.canary and batch.action != "redrive":
        raise InvalidInput(f"a canary is for redrive, not for {batch.action}", code="no_canary",
                           hint="leave `canary` out; `rate` slows any action down")  # fmt: skip


class Batches:
    """Runs the steps of batches."""

    def __init__(self, acts: Acts, eraser: Eraser, clock: Clock) -> None:
        self._acts, self._eraser, self._clock = acts, eraser, clock
        self._by_action: Mapping[str, Callable[[Batch, Header, Header], Awaitable[str]]] = {
            "cancel": self._cancel,
            "terminate": self._terminate,
            "pause": self._pause,
            "unpause": self._unpause,
            "redrive": self._redrive,
            "purge": self._purge,
        }

    async def run(self, call: StepCall) -> Outcome:
        """Processes one page, or looks once at the canary's runs. Raises PortError if a port fails: retry the step."""
        try:
            batch = Batch(**call.input)
            batch.query  # noqa: B018 - raises for an unknown status or action
        except (TypeError, ValueError, LookupError) as error:  # a run that no batch call started
            return Outcome(failure=Failure("bad_batch", "validation", f"this is no batch: {error}", call.node))
        report = Report(**(call.state.get("report") or _first_report(batch)))
        job = await self._acts.header(call.run_id)
        began_ms = self._clock.now_ms()
        if report.watched and (report.is_listed or len(report.watched) == STAGES[report.stage]):
            wait_ms = await self._look(report)
        else:
            wait_ms = await self._page(batch, report, job)
        if report.is_listed and not report.watched:
            if batch.action == "purge" and not batch.dry_run:
                await self._clean_up(batch, job)
            report.is_over = True
        result = asdict(report)
        if wait_ms > 0 and not report.is_over:
            return Outcome(pause=Pause("sleep", timeout_ms=wait_ms, result=result), started_ms=began_ms)
        return Outcome(result, started_ms=began_ms)

    # -- pages

    async def _page(self, batch: Batch, report: Report, job: Header) -> int:
        """Acts on a page of runs. Returns how many milliseconds the rate asks to wait."""
        began_ms, acted = self._clock.now_ms(), 0
        most = _most(batch, report)
        while acted < most and not report.is_listed and self._clock.now_ms() < began_ms + limits.BATCH_MS:
            limit = max(most - acted, limits.BATCH_SHOWN)  # more than needed: some may have been redriven before
            page = await self._acts.runs(replace(batch.query, limit=limit, cursor=report.cursor))
            for header in page.headers:
                if acted == most or self._clock.now_ms() >= began_ms + limits.BATCH_MS:
                    return self._wait_ms(batch, report, began_ms, acted)
                if _is_of(header, job):
                    acted += await self._act(batch, report, job, header)
                report.cursor = encode_cursor(header.created_ms, header.run_id)
            report.is_listed = not page.next_cursor
        return self._wait_ms(batch, report, began_ms, acted)

    async def _act(self, batch: Batch, report: Report, job: Header, header: Header) -> int:
        """Acts on a run and counts it. Returns 0 if it uses up none of the rate and of the canary, else 1."""
        report.matched += 1
        _note(report.first, header.run_id)
        if batch.dry_run:
            return 1
        try:
            made = await self._by_action[batch.action](batch, header, job)
        except (UserError, EngineFault, PortError) as error:
            if isinstance(error, PortError) and error.code != BROKEN_BLOB:
                raise
            report.refused[error.code] = report.refused.get(error.code, 0) + 1
            _note(report.first_refused, header.run_id)
            return 0 if _is_canary(batch, report) else 1
        if not made:
            report.unchanged += 1
            return 0
        report.done += 1
        if _is_canary(batch, report):
            report.watched.append([header.run_id, header.failure, made])
            report.watched_since_ms = self._clock.now_ms()
        return 1

    def _wait_ms(self, batch: Batch, report: Report, began_ms: int, acted: int) -> int:
        if not batch.rate or not acted:
            return 0
        # A late page makes up for a second at most.
        from_ms = max(report.due_ms, began_ms - limits.SECOND_MS) if report.due_ms else began_ms
        report.due_ms = from_ms + round(acted * limits.SECOND_MS / batch.rate)
        return report.due_ms - self._clock.now_ms()

    # -- the canary

    async def _look(self, report: Report) -> int:
        """Checks the canary's redriven runs. Returns the milliseconds until the next check; 0: there is more to do.

        A run that was deleted meanwhile tells nothing: the canary redrives another one in its place.
        """
        is_open, there = False, list[list[str]]()
        for run_id, failure, made in report.watched:
            header = await self._header(made)
            if header is None:
                continue
            if header.status in TERMINAL and failure and _mark(header.failure) == _mark(failure):
                self._stop(report, "relapse", run_id, made, header.failure)
                return 0
            there.append([run_id, failure, made])
            is_open = is_open or not _has_moved_on(header, failure)
        if len(there) < len(report.watched):
            report.watched = there
            return 0
        return self._judged(report, is_open=is_open)

    async def _header(self, run_id: str) -> Header | None:
        """Returns the run's header; None if the run was deleted."""
        try:
            return await self._acts.header(run_id)
        except NotFound:
            return None

    def _judged(self, report: Report, *, is_open: bool) -> int:
        """Ends the stage if none of its runs is open, or the batch if one was open for too long."""
        passed_ms = self._clock.now_ms() - report.watched_since_ms
        if not is_open:
            report.stage, report.watched = report.stage + 1, []
            return 0
        if passed_ms >= limits.CANARY_MS:
            self._stop(report, "canary_open", report.watched[0][0], report.watched[0][2], "")
            return 0
        return min(max(passed_ms, limits.SECOND_MS), limits.MINUTE_MS)

    def _stop(self, report: Report, why: str, run_id: str, made: str, failure: str) -> None:
        report.is_over, report.watched = True, []
        report.stopped = {"reason": why, "run_id": run_id, "redriven_as": made, "failure": failure}

    # -- the actions: each returns the id of the run that it changed or made, "" if there was nothing to do

    async def _cancel(self, batch: Batch, header: Header, job: Header) -> str:
        return header.run_id if await self._acts.cancel(header.run_id, batch.reason, batch.by) else ""

    async def _terminate(self, batch: Batch, header: Header, job: Header) -> str:
        return header.run_id if await self._acts.terminate(header.run_id, batch.reason, batch.by) else ""

    async def _pause(self, batch: Batch, header: Header, job: Header) -> str:
        if header.status is Status.PAUSED:
            return ""
        await self._acts.pause(header.run_id, batch.reason, batch.by)
        return header.run_id

    async def _unpause(self, batch: Batch, header: Header, job: Header) -> str:
        if header.status is not Status.PAUSED:
            return ""
        await self._acts.unpause(header.run_id)
        return header.run_id

    async def _redrive(self, batch: Batch, header: Header, job: Header) -> str:
        """Redrives the run. Returns "" if it was redriven before this batch, however that ended."""
        started = await self._acts.redrive(header.run_id, who=batch.by)
        is_ours = started.created or started.header.created_ms >= job.created_ms
        return started.header.run_id if is_ours else ""

    async def _purge(self, batch: Batch, header: Header, job: Header) -> str:
        try:
            await self._eraser.delete(header.run_id, force=batch.force, who=batch.by)
        except NotFound:  # deleted as the child of another run
            return ""
        return header.run_id

    async def _clean_up(self, batch: Batch, job: Header) -> None:
        """Deletes earlier batches that name the same tag in their filters, and scrubs the store's files."""
        cursor, is_listed = "", batch.tag is None
        while not is_listed:
            page = await self._acts.runs(RunQuery(BATCH, TERMINAL, limit=limits.PAGE_ITEMS_MAX, cursor=cursor))
            for header in page.headers:
                if header.run_id != job.run_id and header.input.get("tag") == batch.tag:
                    with suppress(NotFound):  # another purge of this tag deleted it, or this step's last attempt did
                        await self._eraser.delete(header.run_id)
            cursor, is_listed = page.next_cursor, not page.next_cursor
        await self._eraser.scrub()


def _first_report(batch: Batch) -> dict[str, Json]:
    """Returns the report before the first page, which begins at `before_ms`: the newest runs come first."""
    cursor = encode_cursor(batch.before_ms, "") if batch.before_ms else ""
    return {"action": batch.action, "dry_run": batch.dry_run, "cursor": cursor}


def _is_of(header: Header, job: Header) -> bool:
    """Tells whether the run is older than the batch, and no batch itself."""
    is_new = header.created_ms > job.created_ms
    was_redriven_now = header.created_ms == job.created_ms and header.origin.startswith(REDRIVE)
    return header.workflow not in BUILT_IN and not is_new and not was_redriven_now


def _most(batch: Batch, report: Report) -> int:
    if batch.dry_run:
        return limits.PAGE_ITEMS_MAX
    most = max(int(batch.rate), 1) if batch.rate else limits.BATCH_RUNS
    if _is_canary(batch, report):
        most = min(most, STAGES[report.stage] - len(report.watched))
    return min(most, limits.BATCH_RUNS)


def _is_canary(batch: Batch, report: Report) -> bool:
    return batch.canary and report.stage < len(STAGES)


def _has_moved_on(header: Header, failure: str) -> bool:
    """Tells whether the run has ended, or waits at another step than the one that failed.

    `failure` ends with that step. Both the error's type before it and the step may have blanks.
    """
    is_there = not header.waiting_node or failure.endswith(f" {header.waiting_node}")
    waits_elsewhere = header.status is Status.WAITING and not is_there
    return header.status in TERMINAL or waits_elsewhere


def _mark(failure: str) -> str:
    """Returns the error's fingerprint, the first word of a header's `failure`."""
    return failure.partition(" ")[0]


def _note(ids: list[str], run_id: str) -> None:
    if len(ids) < limits.BATCH_SHOWN:
        ids.append(run_id)

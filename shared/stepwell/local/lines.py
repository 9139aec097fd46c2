"""The dev server's log of runs: a line for each new run, wait, end and failure."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from stepwell.api.runs.states import error_of
from stepwell.engine.records import Status
from stepwell.engine.waits.aside import is_limit
from stepwell.engine.waits.code import is_code
from stepwell.engine.waits.tasks import is_of_tasks
from stepwell.errors import StepwellError
from stepwell.limits import SECOND_MS
from stepwell.local.ids import short
from stepwell.local.once import leave_out
from stepwell.runtime.calls.service import Service
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header

log = logging.getLogger("stepwell.runs")


class RunLines:
    """Logs the changes of runs that a developer waits for."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._for_code: dict[str, int] = {}  # since when runs wait for code
        self._for_limit: dict[str, str] = {}  # at which step a run was told to wait for a limit

    def __call__(self, before: Header | None, after: Header) -> None:
        """Logs a change of a header; nothing of a run that only moves on."""
        if told := self._told(before, after):
            leave_out(after.run_id, told)
            bad = after.status.terminal and after.status is not Status.COMPLETED
            log.log(logging.WARNING if bad else logging.INFO, "%s %s: %s", short(after.run_id), after.workflow, told)

    def _told(self, before: Header | None, after: Header) -> str:
        if before is None:
            is_late = not after.idle and after.start_at_ms > after.created_ms
            return f"created, run {after.run_id}{f', starts at {_clock(after.start_at_ms)}' if is_late else ''}"
        if after.status.terminal:
            self._for_code.pop(after.run_id, None)
            self._for_limit.pop(after.run_id, None)
            seconds = max(after.ended_ms - after.created_ms, 0) / SECOND_MS
            why = "" if after.status is Status.COMPLETED else self._why(after.run_id)
            return f"{after.status.value.replace('_', ' ')} after {seconds:.1f} s{f': {why}' if why else ''}"
        if after.status is Status.WAITING and _wait(before) != _wait(after) and not self._is_again(after):
            is_timed = not is_limit(after.waiting_for)  # of a permit, `until` is the end of the run's own time
            until = f" until {_clock(after.waiting_until_ms)}" if after.waiting_until_ms and is_timed else ""
            kind = after.waiting_for.replace("_", " ")  # a function's sleep has no name of its own
            where = "" if after.waiting_node == kind else f" at {after.waiting_node or 'a step'}"
            return f"waits{where} for {'a condition' if is_of_tasks(kind) else kind}{until}"
        if after.status is Status.COMPENSATING and before.status is not Status.COMPENSATING:
            return self._begins_to_undo(after.run_id)
        return ""

    def _is_again(self, after: Header) -> bool:
        """Tells whether the run waited for code a moment ago: a deploy that is still kept ended that at once.

        Or whether it was told to wait for a limit at this step: each branch of a fork waits for its own permit.
        """
        if is_limit(after.waiting_for):
            before = self._for_limit.get(after.run_id)
            self._for_limit[after.run_id] = after.waiting_node
            return before == after.waiting_node
        if not is_code(after.waiting_for):
            return False
        before_ms = self._for_code.get(after.run_id)
        self._for_code[after.run_id] = after.waiting_since_ms
        return before_ms is not None and after.waiting_since_ms - before_ms < SECOND_MS

    def _begins_to_undo(self, run_id: str) -> str:
        """Says what the run undoes its steps after: a cancel has no error, and may have a reason."""
        try:
            undoing = run_now(self._service.standing(run_id)).token.undoing
        except StepwellError as unreadable:
            return f"takes its steps back: {unreadable.message}"
        ended, reason = ("failed", "") if undoing is None else (undoing.status.value.replace("_", " "), undoing.reason)
        why = self._why(run_id) or reason
        return f"{ended}, and takes its steps back{f': {why}' if why else ''}"

    def _why(self, run_id: str) -> str:
        """The error and its step. The line is worth less than the run, so an unreadable log only shortens it."""
        try:
            error = error_of(run_now(self._service.standing(run_id)).token)
        except StepwellError as unreadable:
            return unreadable.message
        return f"{error.type}: {error.message}{f' (step {error.step})' if error.step else ''}" if error else ""


def _wait(header: Header) -> tuple[str, str, int]:
    return header.waiting_for, header.waiting_node, header.waiting_since_ms


def _clock(time_ms: int) -> str:
    """The local time, with its day unless that is today."""
    moment = datetime.fromtimestamp(time_ms / SECOND_MS, UTC).astimezone()
    is_today = moment.date() == datetime.now().astimezone().date()
    return f"{moment:%H:%M:%S}" if is_today else f"{moment:%Y-%m-%d %H:%M}"

"""The errors of a durable function that nobody awaits: of tasks, futures and callbacks.

    task fails ──▶ awaited: its error is raised there
               ──▶ dropped, or never awaited until the function ends: logged, once, and not in a replay

asyncio tells of the first when the task is destroyed, which is at the same place in each replay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import ref

from stepwell.engine.durable.session import Session
from stepwell.runtime.durable.places import raised_at
from stepwell.runtime.steps.failures import reading

_logger = logging.getLogger("stepwell.workflow")


class Unheard:
    """What asyncio tells of errors that nobody awaits, kept until the turn ends: then it is known whether it is new."""

    def __init__(self, session: Session) -> None:
        self._session: Any = session
        self._told: list[Mapping[str, Any]] = []
        self.failed: list[ref[asyncio.Future[Any]]] = []  # tasks that may still be awaited

    def add(self, context: Mapping[str, Any]) -> None:
        """Takes what asyncio gives to a loop's exception handler."""
        self._told.append(context)

    def tell(self, *, is_last: bool) -> None:
        """Logs the errors, unless the function is replayed. `is_last`: it has ended and awaits nothing more."""
        if self.failed:
            self._look(is_last=is_last)
        told, self._told = self._told, []
        if told and self._session.tells():
            for context in told:
                error = context.get("exception")
                if error is None:
                    self._log(context, None)
                else:
                    reading(error, partial(self._log, context))

    def _look(self, *, is_last: bool) -> None:
        """Forgets the tasks that were awaited; at the last, takes the others for unheard."""
        unawaited = [task for one in self.failed if (task := one()) is not None and task._log_traceback]
        self.failed = [] if is_last else [ref(task) for task in unawaited]
        for task in unawaited if is_last else ():
            task._log_traceback = False  # else asyncio tells of it once more
            self.add({"message": "Task exception was never retrieved", "exception": task.exception()})

    def _log(self, context: Mapping[str, Any], error: BaseException | None) -> None:
        run_id = self._session.run_id
        what = "" if error is None else f"{raised_at(error)}: {type(error).__name__}"
        _logger.warning("%s: %s%s", run_id, context.get("message"), what, exc_info=error, extra={"run_id": run_id})

"""Pauses of workflows: a note for each paused one. Pausing is a single write, however many runs there are.

A worker reads the notes before a step, and relies on what it read for PAUSES_KEPT_MS: one query in that time, whatever
it runs. So a pause reaches a worker that late, and no step pays for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from stepwell import limits
from stepwell.engine.stored import formats
from stepwell.runtime.ports import EVERY, Clock, Notes
from stepwell.values import dataclass

_KIND = "pause"


@dataclass(frozen=True, slots=True)
class WorkflowPause:
    """A pause of a workflow, or of EVERY workflow: since when, by whom, and why."""

    workflow: str
    since_ms: int
    by: str
    reason: str

    @property
    def note(self) -> str:
        """Returns the pause as it is stored."""
        return json.dumps({"since_ms": self.since_ms, "by": self.by, "reason": self.reason})


class Pauses:
    """Reads and writes the notes."""

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes, self._clock = notes, clock
        self._kept: Mapping[str, WorkflowPause] = {}
        self._kept_until_ms = 0

    async def all(self) -> Mapping[str, WorkflowPause]:
        """Returns the current pauses by workflow."""
        found = await self._notes.notes(_KIND)
        self._kept = {name: _pause_of(name, body) for name, body in found.items()}
        self._kept_until_ms = self._clock.now_ms() + limits.PAUSES_KEPT_MS
        return self._kept

    async def lately(self, workflow: str) -> WorkflowPause | None:
        """Returns the pause of this workflow, or of all, as read at most PAUSES_KEPT_MS ago; None if there is none."""
        if self._clock.now_ms() >= self._kept_until_ms:
            await self.all()
        return stopping(self._kept, workflow)

    async def now(self, workflow: str) -> WorkflowPause | None:
        """Returns the pause of this workflow, or of all; None if there is none."""
        return stopping(await self.all(), workflow)

    async def add(self, pause: WorkflowPause) -> bool:
        """Adds a pause. Returns False if the workflow is paused already: that pause stays."""
        self._kept_until_ms = 0
        return await self._notes.put_note(_KIND, pause.workflow, pause.note, None)

    async def get(self, workflow: str) -> WorkflowPause | None:
        """Returns the workflow's own pause; for EVERY, the pause of all. None: there is none."""
        body = await self._notes.get_note(_KIND, workflow)
        return None if body is None else _pause_of(workflow, body)

    async def end(self, workflow: str, note: str) -> bool:
        """Ends this pause. Returns True also if it was over before, False if another one is there."""
        self._kept_until_ms = 0
        return await self._notes.drop_note(_KIND, workflow, note)


def stopping(pauses: Mapping[str, WorkflowPause], workflow: str) -> WorkflowPause | None:
    """Returns the pause that stops runs of this workflow: its own, or that of all. None: no pause does."""
    return pauses.get(workflow) or pauses.get(EVERY) if pauses else None


def _pause_of(workflow: str, body: str) -> WorkflowPause:
    try:
        kept = json.loads(body)
        return WorkflowPause(workflow, kept["since_ms"], kept["by"], kept["reason"])
    except formats.BROKEN as error:
        raise formats.unreadable("pause", error) from error

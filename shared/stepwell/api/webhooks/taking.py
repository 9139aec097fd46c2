"""Accepts a delivery: publishes its event or starts its run, once for each id."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from stepwell.api.webhooks.sources import Meaning, Source
from stepwell.errors import Conflict, RunDeleted
from stepwell.runtime.calls.service import Service
from stepwell.runtime.notify.deliveries import Outcome
from stepwell.runtime.starts.starting import Start
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of a delivery. `is_new`: it is not a duplicate."""

    outcome: Outcome
    id: str = ""  # of the event or of the run
    detail: str = ""
    is_new: bool = True

    @property
    def marks(self) -> tuple[str, ...]:
        """The outcome's further detail."""
        return () if self.is_new and self.outcome.done else ("duplicate",) if self.outcome.done else ("ignored",)


def name_of(outcome: Outcome) -> str:
    """Whether the id is an event's or a run's."""
    return "run_id" if outcome is Outcome.STARTED else "event_id"


async def take(service: Service, source: Source, meaning: Meaning | None, delivery_id: str) -> Taken:
    """Accepts a delivery; the same `delivery_id` gives the same event or run. Raises UserError."""
    if meaning is None:
        return Taken(Outcome.IGNORED, detail="`match` is false")
    whole_id = f"{source.name}:{delivery_id}"
    if source.workflow:
        run_id, is_new = await _start(service, source.workflow, meaning, whole_id)
        return Taken(Outcome.STARTED, run_id, source.workflow, is_new)
    sent = await service.send(meaning.event, meaning.content, key=meaning.key, event_id=whole_id)
    return Taken(Outcome.PUBLISHED, sent.id, f"{meaning.event} {meaning.key}".strip(), sent.is_new)


async def _start(service: Service, workflow: str, meaning: Meaning, whole_id: str) -> tuple[str, bool]:
    """Starts the delivery's run, once for all retries, even if the input would differ now.

    A retry within the hour after the run was deleted is a duplicate of what was taken.
    """
    run_id = f"run_{hashlib.sha256(whole_id.encode()).hexdigest()[:26]}"
    request = Start(workflow, meaning.content, run_id)
    try:
        started = await service.start(request)
    except RunDeleted:
        return run_id, False
    except Conflict:
        first = await service.header(run_id)  # starts it again, because an earlier attempt may have died
        started = await service.start(replace(request, workflow=first.workflow, input=first.input))
    return run_id, started.created

"""A delivery taken: the event that it becomes, or the run that it starts, once for its id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from stepwell.api.webhooks.sources import Meaning, Source
from stepwell.errors import Conflict
from stepwell.runtime.calls.service import Service
from stepwell.runtime.notify.deliveries import Outcome
from stepwell.runtime.starts.starting import Start


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a delivery. `is_new`: it did not come before."""

    outcome: Outcome
    id: str = ""  # of the event or of the run
    detail: str = ""
    is_new: bool = True

    @property
    def marks(self) -> tuple[str, ...]:
        """What else there is to tell of it."""
        return () if self.is_new and self.outcome.done else ("duplicate",) if self.outcome.done else ("ignored",)


def name_of(outcome: Outcome) -> str:
    """What the id is of."""
    return "run_id" if outcome is Outcome.STARTED else "event_id"


async def take(service: Service, source: Source, meaning: Meaning | None, delivery_id: str) -> Taken:
    """`delivery_id`: the same id makes the same event, or the same run. Raises UserError."""
    if meaning is None:
        return Taken(Outcome.IGNORED, detail="`match` is false")
    whole_id = f"{source.name}:{delivery_id}"
    if source.workflow:
        run_id, is_new = await _start(service, source.workflow, meaning, whole_id)
        return Taken(Outcome.STARTED, run_id, source.workflow, is_new)
    sent = await service.send(meaning.event, meaning.content, key=meaning.key, event_id=whole_id)
    return Taken(Outcome.PUBLISHED, sent.id, f"{meaning.event} {meaning.key}".strip(), sent.is_new)


async def _start(service: Service, workflow: str, meaning: Meaning, whole_id: str) -> tuple[str, bool]:
    """The delivery's run: the same one for each retry, even where its input would be another now."""
    run_id = f"run_{hashlib.sha256(whole_id.encode()).hexdigest()[:26]}"
    request = Start(workflow, meaning.content, run_id)
    try:
        started = await service.start(request)
    except Conflict:
        first = await service.header(run_id)  # its start is asked for again: it may not have been set going
        started = await service.start(replace(request, workflow=first.workflow, input=first.input))
    return run_id, started.created

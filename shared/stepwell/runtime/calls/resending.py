"""Resending: the events that a redriven run is sent again.

    failed run   a wait took cv, and failed     paid was sent to the run, which had not come to its wait
    new run      REDRIVEN ── its waits find cv and paid in the mailbox, in the order in which they came

Each goes to the new run alone, or to the branch whose wait had taken it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from stepwell.definition.event_names import is_own
from stepwell.definition.graph import Json
from stepwell.engine.left_parts import left_parts
from stepwell.engine.names import iso
from stepwell.engine.records import ROOT, Record, Topic
from stepwell.engine.waits import branch_of, branch_topic, run_topic
from stepwell.limits import YEAR_MS
from stepwell.runtime.calls.keeping import Plan
from stepwell.runtime.ports import Event, Ports
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Again:
    """An event of the failed run that the new one is sent. `token`: its branch, or ROOT for the run."""

    token: str
    event: Event
    document: str = ""

    def told(self) -> dict[str, Json]:
        """Returns it as a dry run shows it."""
        event = self.event
        return {"token": self.token, "event": event.topic.name, "document": self.document, "event_id": event.id,
                "at": iso(event.at_ms)}  # fmt: skip


class Resender:
    """Finds and sends the events of a failed run again. Each call may be repeated."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def due(self, was: str, now: str, plan: Plan, records: Sequence[Record], since: str) -> list[Again]:
        """Returns what the run `now` is to be sent. `was`: the failed run, whose root has these records.

        Nothing of a wait that the caller names with `since`.
        """
        expires_ms = self._ports.clock.now_ms() + YEAR_MS
        took = _had(was, now, plan, [] if since else records, expires_ms)
        had = {(one.event.topic, one.event.id): one for one in took}
        return [*had.values(), *await self._unread(was, now, plan, had.keys())]

    async def send(self, run_id: str, again: Again) -> None:
        """Puts the event into the mailbox, where a wait of the new run finds it, however late that begins."""
        await self._ports.mailbox.put_event(again.event)
        await self._ports.erasure.note_topic(again.event, run_id)

    async def _unread(self, was: str, now: str, plan: Plan, had: Set[tuple[Topic, str]]) -> list[Again]:
        """Returns what was sent to the failed run alone, or to a branch of it, and its waits had not taken."""
        tokens = {before: after for after, before in plan.branch_ids.items()} | {ROOT: ROOT}
        taken = {record.resumption.event_id for token, record in plan.logs if token == ROOT and record.resumption}
        found = list[Again]()
        for topic in await self._ports.erasure.topics_to(was):
            token = tokens.get(branch_of(topic) or ROOT)
            if is_own(topic.name) or token is None:
                continue
            for event in await self._ports.mailbox.pending_events(topic, self._ports.clock.now_ms()):
                sent = replace(event, topic=_topic(topic.name, now, token))
                if event.id not in taken and (sent.topic, event.id) not in had:
                    found.append(Again(token, sent))
        return found


def _had(was: str, now: str, plan: Plan, records: Sequence[Record], expires_ms: int) -> Iterator[Again]:
    """Yields what the failed waits had taken. One that is not consumed is for all waits of the run, as it was."""
    logs: Mapping[str, Sequence[Record]] = {ROOT: records} | plan.failed
    for kept in (plan.root, *plan.branches):
        for at_ms, part in left_parts(was, kept, logs[kept.token.id]):
            token = ROOT if part.seen else kept.token.id
            event = Event(_topic(part.name, now, token), part.event_id, part.payload, at_ms, expires_ms)
            yield Again(token, event, part.part)


def _topic(name: str, run_id: str, token: str) -> Topic:
    return run_topic(name, run_id) if token == ROOT else branch_topic(name, run_id, token)

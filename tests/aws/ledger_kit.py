"""The kit's backend on emulated AWS, every call of which is counted, to be compared with the ledgers of its runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.calls.ledger import Cost
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.testing.backend import START_MS, Backend, ports_of
from stepwell.testing.kit import Stepwell
from tests.aws.meter import Meter
from tests.contract.emulated import NO_WAIT, AwsQueue, Cloud, aws_queue, item_of, items_of, s3_blobs, table_of

COMPARED = ("write_units", "schedules", "queue_requests", "invocations")
_OF_NO_RUN = frozenset({"DEF", "WORKFLOWS"})  # once for each version of a definition, and each workflow's name
_SENT_TO_NO_WAIT = "SENT"  # where a run's person is to be found, of an event that came before its wait
_FIRING = "NOTES#firing"  # a schedule's last times, whatever it started
_TOLD = re.compile(r"run_\w+:[\d./]+@\d+")


@dataclass(frozen=True)
class Metered:
    """A backend and its counters."""

    backend: Backend
    meter: Meter
    queue: AwsQueue
    table: str

    def counted(self) -> Counter[str]:
        """What AWS was called for, the messages and schedules included that are still under way."""
        calls, under_way = self.calls, 0
        while (due_ms := self.queue.next_due_ms()) is not None:
            self.queue.clock.set(max(due_ms, self.queue.clock.now_ms()))
            while (one := self.queue.receive(ALL_LANES, self.queue.clock.now_ms(), 60_000)) is not None:
                self.queue.delete(one)
                under_way += 1
        messages = calls["DeleteMessage"] + under_way
        sends = calls["SendMessage"] + calls["SendMessageBatch"] + calls["CreateSchedule"]
        units = sum(units for kind, units in self.meter.units.items() if kind not in _OF_NO_RUN) - self.untaken_units
        return Counter(write_units=units, schedules=calls["CreateSchedule"], queue_requests=sends + 2 * messages,
                       invocations=messages)  # fmt: skip

    @property
    def untaken_units(self) -> int:
        """Of what no run took, as docs/cost.md says: events for nobody, again, or too early; live output; schedules."""
        meter, units = self.meter, 0
        logs = "".join(str(item) for item in items_of(self.table) if item["sk"]["S"].startswith("LOG#"))
        for name, amount in meter.of_item.items():
            partition, (kind, _, event_id) = name[0], name[1].partition("#")
            # those that several take stay as they are; those that a run tells of itself are its own
            is_taken = name in meter.transacted or f'"{event_id}"' in logs or _TOLD.fullmatch(event_id) is not None
            if kind == _SENT_TO_NO_WAIT or partition == _FIRING or (kind == "E" and not is_taken):
                units += amount
            elif kind == "E":
                units += meter.idle[name]
        return units

    def ledger(self, stepwell: Stepwell) -> Counter[str]:
        """The sum of the ledgers of all runs there are."""
        total: Counter[str] = Counter()
        for cost in self._costs(stepwell):
            total += Counter({name: getattr(cost, name) for name in COMPARED})
        return total

    def is_whole(self, stepwell: Stepwell) -> bool:
        """Whether no part of a ledger is scaled from another part."""
        return all(cost.is_whole for cost in self._costs(stepwell))

    def _costs(self, stepwell: Stepwell) -> Iterator[Cost]:
        service = stepwell.service
        for header in run_now(service.ports.runs.list_runs(RunQuery(limit=500))).headers:
            yield run_now(service.surveyed_with_cost(run_now(service.standing(header.run_id))))[1]

    @property
    def calls(self) -> Counter[str]:
        """Requests to the queues and to the scheduler."""
        return Counter(self.queue.cloud.calls)


@contextmanager
def metered() -> Iterator[Metered]:
    cloud = Cloud()
    with table_of(cloud) as table, aws_queue(now_ms=START_MS) as queue, s3_blobs() as blobs:
        meter = Meter(cloud.connect("dynamodb"), item_of)
        store = DynamoStore(Table(table.name, lambda: meter, blobs, retry=NO_WAIT))
        ports = ports_of(store, queue, queue.clock, blobs=blobs, timers=queue.timers)
        yield Metered(Backend(ports, queue, queue.clock), meter, queue, table.name)

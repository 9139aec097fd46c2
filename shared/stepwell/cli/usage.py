"""What a run uses, worked out from its records: here, on Step Functions, and on Lambda durable functions.

tests/aws/test_estimates.py holds the figures for this system to what emulated AWS is called for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from stepwell.cli.prices import Prices, millions
from stepwell.engine.codec import decode_record
from stepwell.engine.records import ROOT, End, Fork, Kind, Record, Status

_ITEM_BYTES = 150  # of a record's item, beside its body: its keys, and when it expires
_KILOBYTE = 1_024
_HEADER_UNITS = 6  # of a run that completes, with the indexes: see aws/headers.py
_BRANCHES_TOGETHER = 10  # in a message
_QUEUE_REQUESTS = 3  # of a message: it is sent, received and deleted
_READ_UNITS = 3  # of a message: the header, the snapshot and the records
_TIMER_MS = 10 * 60_000  # a wait that lasts longer has a schedule
_GB = 10**9


@dataclass(frozen=True, slots=True)
class Usage:
    """What one run uses; of several runs, the mean."""

    write_units: float = 0
    read_units: float = 0
    messages: float = 0
    schedules: float = 0
    steps: float = 0  # attempts
    waits: float = 0
    forks: float = 0
    step_seconds: float = 0
    bytes: float = 0  # of results

    def here(self, prices: Prices, memory_gb: float) -> float:
        """USD on this system: its table, queues, schedules, and the Lambda that runs the steps."""
        return (
            millions(self.write_units, prices.million_write_units)
            + millions(self.read_units, prices.million_read_units)
            + millions(self.messages * _QUEUE_REQUESTS, prices.million_queue_requests)
            + millions(self.messages, prices.million_lambda_requests)
            + millions(self.schedules, prices.million_schedules)
            + self.step_seconds * memory_gb * prices.gb_second
        )

    def on_step_functions(self, prices: Prices, memory_gb: float) -> float:
        """USD on Step Functions Standard: a transition for each attempt, wait and fork, and two for start and end."""
        return (
            millions(self.steps + self.waits + self.forks + 2, prices.million_transitions)
            + millions(self.steps, prices.million_lambda_requests)
            + self.step_seconds * memory_gb * prices.gb_second
        )

    def on_durable_functions(self, prices: Prices, memory_gb: float) -> float:
        """USD on Lambda durable functions: an operation for each attempt, wait and fork, and one for the execution."""
        return (
            millions(self.steps + self.waits + self.forks + 1, prices.million_operations)
            + self.bytes / _GB * prices.durable_gb
            + millions(1 + self.waits, prices.million_lambda_requests)
            + self.step_seconds * memory_gb * prices.gb_second
        )


def usage_of(lines: Sequence[Mapping[str, Any]]) -> Usage:
    """Returns what an exported run used. Its first line has the facts."""
    facts, *rest = lines
    records = [(str(line["token"]), decode_record(json.dumps(line["record"]))) for line in rest]
    definition = facts["definition"] or {}
    used = Usage(write_units=_HEADER_UNITS + (2 if "concurrency" in definition else 0) + ("rate_limit" in definition),
                 messages=1)  # fmt: skip
    for (token, record), line in zip(records, rest, strict=True):
        used = _with(used, token, record, len(json.dumps(line["record"], separators=(",", ":")).encode()))
    return replace(used, read_units=used.messages * _READ_UNITS)


def _with(used: Usage, token: str, record: Record, size_bytes: int) -> Usage:
    """Adds what a record was written for."""
    units = -(-(size_bytes + _ITEM_BYTES) // _KILOBYTE)
    used = replace(used, write_units=used.write_units + units + _of_end(token, record))
    match record.kind:
        case Kind.STEP | Kind.ACTED | Kind.UNDONE:
            seconds = max(record.at_ms - record.started_ms, 0) / 1_000 if record.started_ms else 0
            size = len(json.dumps(record.output))
            used = replace(
                used, steps=used.steps + 1, step_seconds=used.step_seconds + seconds, bytes=used.bytes + size
            )
        case Kind.WAITING:
            used = _with_wait(used, token, record)
        case Kind.RESUMED | Kind.RECEIVED:
            used = _with_resume(used, record, units)
    if isinstance(record.next, Fork):
        messages = -(-record.next.width // _BRANCHES_TOGETHER)
        used = replace(used, forks=used.forks + 1, messages=used.messages + messages)
    return used


def _of_end(token: str, record: Record) -> int:
    """A branch's arrival; or the entry of a run that did not complete among those of its status."""
    if not isinstance(record.next, End):
        return 0
    return 1 if token != ROOT or record.next.status is not Status.COMPLETED else 0


def _with_wait(used: Usage, token: str, record: Record) -> Usage:
    """The header says that it waits, its topics are registered, its timer is set. A lock is taken to be free."""
    parked = record.parked
    if parked is None:
        return used
    topics = sum(len(arm.topics) for arm in parked.arms)
    registered = topics - sum(bool(arm.topics) for arm in parked.arms) if token == ROOT else topics
    is_far = parked.until_ms is not None and parked.until_ms - record.at_ms > _TIMER_MS
    return replace(
        used,
        waits=used.waits + 1,
        write_units=used.write_units + (2 if parked.locks else 1 + 2 * registered),
        schedules=used.schedules + is_far,
        messages=used.messages + (2 if is_far else 0),
    )


def _with_resume(used: Usage, record: Record, units: int) -> Usage:
    """The header says that it runs again; an event is kept, and consumed in the transaction with the record."""
    came = record.resumption
    kind = "" if came is None else came.kind
    more = 1 + (3 + units if kind == "event" else 0)
    messages = {"event": 2, "locked": 0}.get(kind, 1)
    return replace(used, write_units=used.write_units + more, messages=used.messages + messages)


def mean(used: Sequence[Usage]) -> Usage:
    """Returns the mean of several runs."""
    names = [one.name for one in fields(Usage)]
    return Usage(**{name: sum(getattr(one, name) for one in used) / len(used) for name in names})

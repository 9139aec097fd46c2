"""The common behaviour of all stores: which runs a list returns, its cursors, and the refusal of excess events.

A cursor is the place of the last run of a page, as opaque text. It holds no secret and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from stepwell.engine.records import Status, Topic
from stepwell.engine.stored import formats
from stepwell.errors import Conflict, EngineFault, InvalidInput, NewerFormat, PortError
from stepwell.limits import MINUTE_MS
from stepwell.runtime.ports import BROKEN_BLOB, Event, Pause
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery
from stepwell.runtime.stores.jsontext import decode

_logger = logging.getLogger("stepwell.stores")
LATEST_MS = 10**15 - 1  # the largest time in ms that a store can hold
_BROKEN = (ValueError, TypeError, OverflowError, RecursionError, binascii.Error)  # raised by decoding an invalid cursor


def encode_cursor(created_ms: int, run_id: str) -> str:
    """Returns the cursor for the place after this run."""
    return base64.urlsafe_b64encode(json.dumps([created_ms, run_id]).encode()).decode()


def decode_cursor(cursor: str) -> tuple[int, str]:
    """Returns (created_ms, run_id) of the place. Raises InvalidInput for text that `encode_cursor` did not make."""
    try:
        created_ms, run_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        place = int(created_ms), str(run_id)
    except _BROKEN as error:
        raise _bad_cursor() from error
    if not 0 <= place[0] <= LATEST_MS or encode_cursor(*place) != cursor:
        raise _bad_cursor()
    return place


def _bad_cursor() -> InvalidInput:
    return InvalidInput(
        "the cursor was not made by this list",
        code="bad_cursor",
        hint="pass `next_cursor` of the page before unchanged, or leave it out to begin with the first run",
    )


def encode_deadline(until_ms: int, run_id: str, from_ms: int = 0) -> str:
    """Returns the cursor of a list by deadline. `from_ms`: where a store goes on reading its index."""
    return base64.urlsafe_b64encode(json.dumps([until_ms, run_id, from_ms]).encode()).decode()


def decode_deadline(cursor: str) -> tuple[int, str, int]:
    """Returns the arguments of `encode_deadline`. Raises InvalidInput for other text."""
    try:
        until_ms, run_id, from_ms = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        place = int(until_ms), str(run_id), int(from_ms)
    except _BROKEN as error:
        raise _bad_cursor() from error
    if not 0 <= place[2] <= LATEST_MS or encode_deadline(*place) != cursor:
        raise _bad_cursor()
    return place


def page_by_deadline(headers: Sequence[Header], limit: int) -> RunPage:
    """Returns a page by deadline. `headers`: one run more than the page, if there are more."""
    page = tuple(headers[:limit])
    more = len(headers) > limit
    return RunPage(page, encode_deadline(*deadline_of(page[-1])) if more else "")


def deadline_of(header: Header) -> tuple[int, str]:
    """Returns the run's place in a list by deadline."""
    return header.waiting_until_ms or 0, header.run_id


def status_of(text: str) -> Status:
    """Parses a stored status. Raises NewerFormat for one that this code does not know."""
    try:
        return Status(text)
    except ValueError:
        raise NewerFormat(f"a run is {text!r:.40}, which this version does not know",
                          hint="a newer version of Stepwell wrote it: deploy that version again") from None  # fmt: skip


def opened(event: Event) -> Event:
    """Returns a stored event with its payload decoded. Raises NewerFormat, EngineFault."""
    formats.check_format(event.format, "event")
    try:
        return replace(event, payload=decode(event.payload))
    except formats.BROKEN as error:
        raise formats.unreadable("event", error) from error


@contextmanager
def if_readable(topic: Topic, event_id: str) -> Iterator[None]:
    """Logs and skips an event of a topic that cannot be read, so that runs still get the others."""
    try:
        yield
    except (EngineFault, PortError) as error:
        if isinstance(error, PortError) and error.code != BROKEN_BLOB:
            raise
        _logger.error("event %s of %s is passed over: %s", event_id, topic.name, error)


def too_many_pending(topic: Topic, most: int) -> Conflict:
    """Returns the refusal of an event for which its topic has no room."""
    return Conflict(
        f"{most} events are pending for {topic}",
        code="too_many_pending",
        hint="start the runs that wait for them, or let them expire",
    )


def due_page(headers: Sequence[Header], limit: int) -> RunPage:
    """Returns a page of due runs. `headers`: one run more than the page, if there are more."""
    page = tuple(headers[:limit])
    more = len(headers) > limit
    return RunPage(page, encode_cursor(page[-1].due_ms or 0, page[-1].run_id) if more else "")


def unpaused(header: Header) -> Status:
    """Returns the run's status, or the one that it resumes with if it is paused."""
    return Status(header.resumes_as) if header.resumes_as else header.status


def with_pause(header: Header, pause: Pause | None, at_ms: int) -> Header:
    """Returns the header of a run that is paused, or that is resumed if `pause` is None.

    No two pauses of a run have the same time, which tells a late message which pause it ends.
    """
    if pause is None:
        at_ms = max(at_ms, header.paused_ms)
        status, due_ms = Status(header.resumes_as), at_ms - at_ms % MINUTE_MS
        return replace(header, status=status, resumes_as="", paused_ms=0, pause_of="", changed_ms=at_ms, due_ms=due_ms)
    at_ms = max(at_ms, header.changed_ms + 1)
    return replace(header, status=Status.PAUSED, resumes_as=unpaused(header).value, paused_ms=at_ms, paused_by=pause.by,
                   pause_reason=pause.reason, pause_of=pause.of, changed_ms=at_ms)  # fmt: skip


def fits(header: Header, query: RunQuery) -> bool:
    """Tells whether the query matches this run, apart from `since_ms` and the cursor."""
    if query.workflow and header.workflow != query.workflow:
        return False
    if query.statuses and header.status not in query.statuses:
        return False
    if query.tag is not None and header.tags.get(query.tag[0]) != query.tag[1]:
        return False
    if query.waiting_for and header.waiting_for not in query.waiting_for:
        return False
    if query.failure and header.failure.partition(" ")[0] != query.failure:
        return False
    if query.overdue_at_ms is None and not query.by_deadline:
        return True
    until_ms = header.waiting_until_ms
    if header.status is not Status.WAITING or until_ms is None:
        return False
    return query.overdue_at_ms is None or until_ms < query.overdue_at_ms

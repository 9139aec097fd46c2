"""Converts between the values of the ports and the rows of the local database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeAlias

from stepwell.engine.records import TERMINAL, Status, Topic
from stepwell.local.database import Row
from stepwell.runtime.ports import Event
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.stores.answers import decode_cursor, decode_deadline, opened, status_of
from stepwell.runtime.stores.jsontext import decode, encode

HEADER_FIELDS = tuple(field.name for field in fields(Header))
HEADER_COLUMNS = ", ".join(f"r.{name}" for name in HEADER_FIELDS)
_Condition: TypeAlias = tuple[str, tuple[object, ...]]  # with the values that it binds
_BY_DEADLINE = "runs r INDEXED BY runs_by_due"
_HAS_TAG = (
    "EXISTS (SELECT 1 FROM tags t WHERE t.name = ? AND t.value = ? AND t.created_ms = r.created_ms"
    " AND t.run_id = r.run_id)"
)
ENDED = "status IN ({})".format(", ".join(f"'{status}'" for status in sorted(TERMINAL)))
# With a plus, so that it never chooses the index. A run with a status of newer code is left to that.
KNOWN = "+r.status IN ({})".format(", ".join(f"'{status}'" for status in sorted(Status)))


def header_row(header: Header) -> Row:
    """Returns the header's values in the order of HEADER_FIELDS."""
    values = {name: getattr(header, name) for name in HEADER_FIELDS}
    values["status"] = header.status.value
    values["input"] = encode(header.input)
    values["tags"] = encode(dict(header.tags))
    return tuple(values.values())


def header_of(row: Row) -> Header:
    """Converts a row of `header_row` back to a header."""
    values = dict(zip(HEADER_FIELDS, row, strict=True))
    values["status"] = status_of(values["status"])
    values["input"] = decode(values["input"])
    values["tags"] = decode(values["tags"])
    values |= {name: bool(values[name]) for name in ("idle", "watched", "pinned")}
    return Header(**values)


def event_of(topic: Topic, row: Row) -> Event:
    """Builds an event from (id, at_ms, expires_ms, consumed_by, format, payload)."""
    event_id, at_ms, expires_ms, consumed_by, number, payload = row
    return opened(Event(topic, event_id, payload, at_ms, expires_ms, consumed_by, number))


def list_sql(query: RunQuery) -> tuple[str, list[object]]:
    """The SELECT of one page and one run more, which tells whether there is a next page.

    Only what narrows becomes part of it, so that SQLite can choose the index. All values are bound.
    """
    if query.by_deadline:
        return _by_deadline_sql(query)
    source, order, conditions = "runs r", "r", _narrowing(query)
    if query.tag is not None:
        source, order = "tags t CROSS JOIN runs r ON r.run_id = t.run_id", "t"
        conditions.append(("t.name = ? AND t.value = ?", query.tag))
    elif query.overdue_at_ms is not None:
        source = _BY_DEADLINE  # few runs are overdue: sorting them beats reading all that wait
    if query.since_ms:
        conditions.append((f"{order}.created_ms >= ?", (query.since_ms,)))
    if query.cursor:
        conditions.append((f"({order}.created_ms, {order}.run_id) < (?, ?)", decode_cursor(query.cursor)))
    return _select(source, conditions, f"{order}.created_ms DESC, {order}.run_id DESC", query.limit)


def _by_deadline_sql(query: RunQuery) -> tuple[str, list[object]]:
    conditions = _narrowing(query)
    conditions.append(("r.status = ? AND r.waiting_until_ms IS NOT NULL", (Status.WAITING.value,)))
    if query.tag is not None:
        conditions.append((_HAS_TAG, query.tag))
    if query.since_ms:
        conditions.append(("r.created_ms >= ?", (query.since_ms,)))
    if query.cursor:
        conditions.append(("(r.waiting_until_ms, r.run_id) > (?, ?)", decode_deadline(query.cursor)[:2]))
    return _select(_BY_DEADLINE, conditions, "r.waiting_until_ms, r.run_id", query.limit)


def _narrowing(query: RunQuery) -> list[_Condition]:
    """What lists in every order are narrowed by."""
    conditions: list[_Condition] = []
    if query.workflow:
        conditions.append(("r.workflow = ?", (query.workflow,)))
    if query.statuses:
        marks = ", ".join("?" * len(query.statuses))
        conditions.append((f"r.status IN ({marks})", tuple(sorted(query.statuses))))
    if query.waiting_for:
        marks = ", ".join("?" * len(query.waiting_for))
        conditions.append((f"r.waiting_for <> '' AND r.waiting_for IN ({marks})", tuple(sorted(query.waiting_for))))
    if query.failure:
        conditions.append(("substr(r.failure, 1, instr(r.failure, ' ') - 1) = ?", (query.failure,)))
    if query.overdue_at_ms is not None:
        conditions.append(("r.status = ? AND r.waiting_until_ms < ?", (Status.WAITING.value, query.overdue_at_ms)))
    return conditions


def _select(source: str, conditions: Sequence[_Condition], by: str, limit: int) -> tuple[str, list[object]]:
    where = " AND ".join([*(text for text, _ in conditions), KNOWN])
    sql = f"SELECT {HEADER_COLUMNS} FROM {source} WHERE {where} ORDER BY {by} LIMIT ?"  # noqa: S608 - fixed fragments; values are bound
    return sql, [*(value for _, bound in conditions for value in bound), limit + 1]

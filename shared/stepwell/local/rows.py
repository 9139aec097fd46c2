"""Converts between the values of the ports and the rows of the local database."""

from __future__ import annotations

from dataclasses import fields

from stepwell.engine.records import TERMINAL, Status, Topic
from stepwell.local.database import Row
from stepwell.runtime.ports import Event, Header, RunQuery
from stepwell.runtime.stores.answers import decode_cursor, opened
from stepwell.runtime.stores.jsontext import decode, encode

HEADER_FIELDS = tuple(field.name for field in fields(Header))
HEADER_COLUMNS = ", ".join(f"r.{name}" for name in HEADER_FIELDS)
ENDED = "status IN ({})".format(", ".join(f"'{status}'" for status in sorted(TERMINAL)))


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
    values["status"] = Status(values["status"])
    values["input"] = decode(values["input"])
    values["tags"] = decode(values["tags"])
    values["idle"], values["watched"] = bool(values["idle"]), bool(values["watched"])
    return Header(**values)


def event_of(topic: Topic, row: Row) -> Event:
    """Builds an event from (id, at_ms, expires_ms, consumed_by, format, payload)."""
    event_id, at_ms, expires_ms, consumed_by, number, payload = row
    return opened(Event(topic, event_id, payload, at_ms, expires_ms, consumed_by, number))


def list_sql(query: RunQuery) -> tuple[str, list[object]]:
    """The SELECT of one page and one run more, which tells whether there is a next page.

    Only what narrows becomes part of it, so that SQLite can choose the index. All values are bound.
    """
    source, order = "runs r", "r"
    conditions: list[tuple[str, tuple[object, ...]]] = []
    if query.tag is not None:
        source, order = "tags t CROSS JOIN runs r ON r.run_id = t.run_id", "t"
        conditions.append(("t.name = ? AND t.value = ?", query.tag))
    if query.workflow:
        conditions.append(("r.workflow = ?", (query.workflow,)))
    if query.statuses:
        marks = ", ".join("?" * len(query.statuses))
        conditions.append((f"r.status IN ({marks})", tuple(sorted(query.statuses))))
    if query.since_ms:
        conditions.append((f"{order}.created_ms >= ?", (query.since_ms,)))
    if query.waiting_for:
        conditions.append(("r.waiting_for <> '' AND r.waiting_for = ?", (query.waiting_for,)))
    if query.overdue_at_ms is not None:
        if query.tag is None:
            source += " INDEXED BY runs_by_due"  # few runs are overdue: sorting them beats reading all that wait
        conditions.append(("r.status = ? AND r.waiting_until_ms < ?", (Status.WAITING.value, query.overdue_at_ms)))
    if query.cursor:
        conditions.append((f"({order}.created_ms, {order}.run_id) < (?, ?)", decode_cursor(query.cursor)))
    where = " AND ".join(text for text, _ in conditions) or "TRUE"
    values = [value for _, bound in conditions for value in bound]
    sql = (
        f"SELECT {HEADER_COLUMNS} FROM {source} WHERE {where}"  # noqa: S608 - fixed fragments; values are bound
        f" ORDER BY {order}.created_ms DESC, {order}.run_id DESC LIMIT ?"
    )
    return sql, [*values, query.limit + 1]

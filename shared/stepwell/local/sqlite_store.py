"""The store on SQLite: what a person's machine keeps of its runs, as durable as the disk under it.

The methods are `async` because the port is; none of them suspends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.records import Status, Topic
from stepwell.engine.stored.formats import MARK
from stepwell.local.database import Row
from stepwell.local.erasing import HELD, SqliteErasure
from stepwell.local.notes import SELECT as SELECT_NOTE
from stepwell.local.notes import SqliteNotes
from stepwell.local.rows import ENDED, HEADER_COLUMNS, HEADER_FIELDS, KNOWN, event_of, header_of, header_row, list_sql
from stepwell.local.user_items import SqliteItems, statement_of
from stepwell.memory.items import changes_of
from stepwell.runtime.ports import (
    Appended,
    Event,
    EventRef,
    EventTaken,
    Joined,
    Loaded,
    Marked,
    Pause,
    Saved,
    Waiter,
    Writes,
)
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery, StatusChange, check_held
from stepwell.runtime.stores.answers import (
    decode_cursor,
    due_page,
    encode_cursor,
    if_readable,
    page_by_deadline,
    too_many_pending,
    with_pause,
)
from stepwell.runtime.stores.jsontext import encode

PURGE_RUNS = 100  # runs dropped per transaction: others wait that long

# ruff: noqa: S608 - the only texts put into SQL are names of columns and fixed conditions
INSERT_RUN = (
    f"INSERT INTO runs ({', '.join(HEADER_FIELDS)}) VALUES ({', '.join('?' * len(HEADER_FIELDS))})"
    " ON CONFLICT DO NOTHING"
)
INSERT_TAG = "INSERT INTO tags (name, value, created_ms, run_id) VALUES (?, ?, ?, ?)"
SELECT_RUN = f"SELECT {HEADER_COLUMNS} FROM runs r WHERE r.run_id = ?"
CHANGE_STATUS = """UPDATE runs SET rev = :rev,
    status = CASE WHEN paused_ms > 0 AND NOT :ends_pause THEN status ELSE :status END,
    resumes_as = CASE WHEN paused_ms > 0 AND NOT :ends_pause THEN :status ELSE '' END,
    paused_ms = CASE WHEN :ends_pause THEN 0 ELSE paused_ms END, failure = :failure, changed_ms = :changed_ms,
    started_ms = coalesce(:started_ms, started_ms), ended_ms = :ended_ms, waiting_for = :waiting_for,
    waiting_node = :waiting_node, waiting_since_ms = :waiting_since_ms, waiting_until_ms = :waiting_until_ms,
    expires_ms = :expires_ms, due_ms = CASE WHEN :of_branch THEN due_ms ELSE :due_ms END
    WHERE run_id = :run_id AND rev < :rev + :of_branch
    AND NOT (paused_ms > 0 AND :unless_paused AND NOT :ends_pause)"""
CHANGED = tuple(one.name for one in fields(StatusChange))  # the parameters of CHANGE_STATUS
HOLD = """UPDATE runs SET status = ?, resumes_as = ?, paused_ms = ?, paused_by = ?, pause_reason = ?, pause_of = ?,
    changed_ms = ?, due_ms = ? WHERE run_id = ? AND status = ? AND resumes_as = ? AND paused_ms = ?"""
WATCH = "UPDATE runs SET watched = 1, due_ms = ? WHERE run_id = ?"
WATCH_SEEN = f"{WATCH} AND rev = ? AND due_ms IS ?"
SELECT_DUE = f"""SELECT {HEADER_COLUMNS} FROM runs r INDEXED BY due_runs
    WHERE watched AND due_ms < ? AND (due_ms, run_id) > (?, ?) AND {KNOWN} ORDER BY due_ms, run_id LIMIT ?"""
# The sum is taken in two parts because SQLite refuses sums past 64 bits: five million runs would reach them.
STATS = f"""SELECT workflow, status, waiting_for, count(*), sum(created_ms / 1000), sum(created_ms % 1000),
    min(created_ms) FROM runs r WHERE {KNOWN} GROUP BY workflow, status, waiting_for
    ORDER BY workflow, status, waiting_for"""

APPEND = "INSERT INTO log (run_id, token, slot, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_IS_MARK = f"substr(body, 1, {len(MARK) - 1}) = '{MARK[:-1]}'"  # also of one that tells who rests before it
UNMARK = f"DELETE FROM log WHERE run_id = ? AND token = ? AND slot = ? AND {_IS_MARK}"
REST = f"""INSERT INTO log (run_id, token, slot, body) VALUES (:run_id, :token, :slot, :told)
    ON CONFLICT (run_id, token, slot) DO UPDATE SET body = excluded.body WHERE {_IS_MARK}"""
REST_AFTER = (
    "UPDATE log SET body = :told WHERE (run_id, token, slot) = (:run_id, :token, :slot) AND body IN (:told, :before)"
)
SELECT_SLOT = "SELECT body FROM log WHERE run_id = ? AND token = ? AND slot = ?"
SELECT_LOG = "SELECT slot, body FROM log WHERE run_id = ? AND token = ? AND slot > ? ORDER BY slot LIMIT ?"
SELECT_LOGS = """SELECT token, slot, body FROM log
    WHERE run_id = ? AND token IN (SELECT value FROM json_each(?)) ORDER BY token, slot"""
SELECT_LOADED = """SELECT slot, body, 1 AS is_snapshot FROM snapshots WHERE run_id = :run_id AND token = :token
    UNION ALL SELECT slot, body, 0 FROM log WHERE run_id = :run_id AND token = :token AND slot >
    coalesce((SELECT slot FROM snapshots WHERE run_id = :run_id AND token = :token), -1)
    ORDER BY is_snapshot DESC, slot"""
SAVE_SNAPSHOT = """INSERT INTO snapshots (run_id, token, slot, body) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET slot = excluded.slot, body = excluded.body WHERE excluded.slot > slot"""

INSERT_MEMBER = """INSERT INTO joins (run_id, name, member, place) VALUES (:run_id, :name, :member,
    CASE WHEN :in_order THEN (SELECT 1 + count(*) FROM joins WHERE run_id = :run_id AND name = :name) ELSE 0 END)
    ON CONFLICT DO NOTHING"""
SELECT_MEMBERS = "SELECT member, place FROM joins WHERE run_id = ? AND name = ?"

REPORT = """INSERT INTO reports (run_id, name, page, value) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value"""
SELECT_REPORTS = "SELECT page, value FROM reports WHERE run_id = ? AND name = ?"

INSERT_EVENT = """INSERT INTO events (name, key, id, at_ms, expires_ms, consumed_by, format, payload)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
SELECT_EVENT = """SELECT id, at_ms, expires_ms, consumed_by, format, payload FROM events
    WHERE name = ? AND key = ? AND id = ?"""
EVENT_EXISTS = "SELECT 1 FROM events WHERE name = ? AND key = ? AND id = ?"
# INDEXED BY, here and below: left to itself, SQLite would read the consumed events, or all ended runs, too.
COUNT_PENDING = """SELECT count(*) FROM events INDEXED BY events_pending
    WHERE name = ? AND key = ? AND consumed_by = '' AND expires_ms > ?"""
SELECT_PENDING = """SELECT id, at_ms, expires_ms, consumed_by, format, payload FROM events
    WHERE name = ? AND key = ? AND consumed_by = '' AND expires_ms > ? ORDER BY at_ms, id"""
SELECT_PENDING_AFTER = SELECT_PENDING.replace("ORDER BY", "AND id > ? ORDER BY")
CONSUME_EVENT = "UPDATE events SET consumed_by = ? WHERE name = ? AND key = ? AND id = ? AND consumed_by = ''"
PURGE_EVENTS = "DELETE FROM events WHERE expires_ms <= ?"

PUT_WAITER = """INSERT INTO waiters (name, key, run_id, token, slot, arm, since_ms, match)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
SELECT_WAITERS = """SELECT run_id, token, slot, since_ms, arm, match FROM waiters WHERE name = ? AND key = ?
    ORDER BY since_ms, run_id, token, slot, arm"""
COUNT_WAITERS = "SELECT count(*) FROM (SELECT 1 FROM waiters WHERE name = ? AND key = ? LIMIT ?)"
FORGET_WAITER = """DELETE FROM waiters WHERE name = ? AND key = ? AND run_id = ? AND token = ? AND slot = ?
    AND arm = ?"""

SELECT_EXPIRED = f"""SELECT run_id FROM runs INDEXED BY runs_by_expiry
    WHERE expires_ms > 0 AND expires_ms <= ? AND {ENDED} LIMIT ?"""
PURGE_HELD = "DELETE FROM notes WHERE kind = ? AND CAST(body AS INTEGER) <= ?"
PURGE_RUN = tuple(
    f"DELETE FROM {table} WHERE run_id = ?"
    for table in ("log", "snapshots", "joins", "reports", "tags", "waiters", "runs")
)


class SqliteStore(SqliteItems, SqliteNotes, SqliteErasure):
    """Log, mailbox, runs and notes on a Database, for any number of threads and processes."""

    async def create_run(self, header: Header) -> Header | None:
        row = header_row(header)
        # Lazily: the message that sets it going follows, and waits for the disk. An idle run has none.
        with self._db.transaction(lazily=not header.idle or self._db.comes_again) as execute:
            held = execute(SELECT_NOTE, (HELD, header.run_id)).fetchone()
            check_held(header, int(held[0]) if held else 0)
            if execute(INSERT_RUN, row).rowcount:
                for name, value in header.tags.items():
                    execute(INSERT_TAG, (name, value, header.created_ms, header.run_id))
                return None
            return header_of(execute(SELECT_RUN, (header.run_id,)).fetchone())

    async def get_run(self, run_id: str) -> Header | None:
        rows = self._db.rows(SELECT_RUN, (run_id,))
        return header_of(rows[0]) if rows else None

    async def change_status(self, change: StatusChange) -> bool:
        values = {name: getattr(change, name) for name in CHANGED} | {"status": change.status.value}
        return self._db.change(CHANGE_STATUS, values, lazily=self._db.comes_again) == 1

    async def watch(self, run_id: str, due_ms: int | None, seen: Header | None = None) -> bool:
        if seen is None:
            return self._db.change(WATCH, (due_ms, run_id)) == 1
        return self._db.change(WATCH_SEEN, (due_ms, run_id, seen.rev, seen.due_ms)) == 1

    async def hold(self, seen: Header, pause: Pause | None, at_ms: int) -> bool:
        new = with_pause(seen, pause, at_ms)
        paused = (new.paused_ms, new.paused_by, new.pause_reason, new.pause_of)
        values = (new.status.value, new.resumes_as, *paused, new.changed_ms, new.due_ms)
        was = (seen.run_id, seen.status.value, seen.resumes_as, seen.paused_ms)
        return self._db.change(HOLD, (*values, *was)) == 1

    async def list_due(self, before_ms: int, limit: int, cursor: str = "") -> RunPage:
        after = decode_cursor(cursor) if cursor else (-1, "")
        return due_page([header_of(row) for row in self._db.rows(SELECT_DUE, (before_ms, *after, limit + 1))], limit)

    async def list_runs(self, query: RunQuery) -> RunPage:
        headers = tuple(header_of(row) for row in self._db.rows(*list_sql(query)))
        if query.by_deadline:
            return page_by_deadline(headers, query.limit)
        if len(headers) <= query.limit:
            return RunPage(headers)
        page = headers[: query.limit]
        return RunPage(page, encode_cursor(page[-1].created_ms, page[-1].run_id))

    async def stats(self) -> Json:
        return [
            {
                "workflow": workflow,
                "status": Status(status),
                "count": count,
                "sum_created_ms": seconds * limits.SECOND_MS + rest_ms,
                "oldest_created_ms": oldest_ms,
                "waiting_for": waiting_for,
            }
            for workflow, status, waiting_for, count, seconds, rest_ms, oldest_ms in self._db.rows(STATS)
        ]

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        if consumes is not None or also:
            return self._transact((run_id, token, slot), body, consumes, also)
        if self._db.change(APPEND, (run_id, token, slot, body)):
            return None
        winner = self._db.rows(SELECT_SLOT, (run_id, token, slot))
        if not winner:  # it was a mark, which has been removed since
            return await self.append(run_id, token, slot, body)
        return _winner(winner[0])

    async def mark(self, run_id: str, token: str, slot: int) -> bool:
        self._db.change(APPEND, (run_id, token, slot, MARK))
        return all(_is_mark(body) for (body,) in self._db.rows(SELECT_SLOT, (run_id, token, slot)))

    async def rest(self, run_id: str, token: str, slot: int, told: str, before: str = "") -> bool:
        place = {"run_id": run_id, "token": token, "slot": slot}
        bound = {**place, "told": _resting(told), "before": _resting(before)}
        return self._db.change(REST_AFTER if before else REST, bound) == 1

    async def unmark(self, run_id: str, token: str, slot: int) -> None:
        self._db.change(UNMARK, (run_id, token, slot))

    async def is_blank(self, run_id: str, token: str) -> bool:
        return not self._db.rows(SELECT_LOG, (run_id, token, -1, 1))

    def _transact(self, place: tuple[str, str, int], body: str, consumes: EventRef | None, also: Writes) -> Appended:
        with self._db.transaction() as execute:
            # The slot first: where the event is taken too, it is the token that has moved on.
            winner = execute(SELECT_SLOT, place).fetchone()
            if winner:
                return _winner(winner)
            changes = changes_of(also, self.item)  # this thread's connection: what it reads is in the transaction
            if isinstance(changes, Refusal):
                return changes
            if consumes is not None:
                topic, event_id = consumes
                taker = "{}|{}|{}".format(*place)
                if not execute(CONSUME_EVENT, (taker, topic.name, topic.key, event_id)).rowcount:
                    return EventTaken()
            execute(APPEND, (*place, body))
            for change in changes:
                execute(*statement_of(change))
            return None

    async def load(self, run_id: str, token: str, after: int | None = None) -> Loaded:
        if after is None:
            found = self._db.rows(SELECT_LOADED, {"run_id": run_id, "token": token})
        else:
            found = [(*row, 0) for row in self._db.rows(SELECT_LOG, (run_id, token, after, -1))]
        snapshot = Saved(*found[0][:2]) if found and found[0][2] else None
        rows = [(slot, body) for slot, body, is_snapshot in found if not is_snapshot]
        records = _records(rows)
        return Loaded(snapshot, records, is_marked=len(records) < len(rows))

    async def read_log(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> Sequence[Saved]:
        rows = self._db.rows(SELECT_LOG, (run_id, token, after, -1 if limit is None else limit))
        return _records(rows)

    async def save_snapshot(self, run_id: str, token: str, slot: int, body: str) -> None:
        self._db.change(SAVE_SNAPSHOT, (run_id, token, slot, body), lazily=True)  # a cache

    async def arrive(self, run_id: str, join: str, member: str, *, in_order: bool = False) -> Joined:
        # In one transaction, so that the sets that two arrivals get are never both the first complete one. Lazily: a
        # power cut undoes it only with all that came of it, and with the end of the message, which then comes again.
        with self._db.transaction(lazily=True) as execute:
            execute(INSERT_MEMBER, {"run_id": run_id, "name": join, "member": member, "in_order": in_order})
            return _joined(execute, run_id, join)

    async def report(self, run_id: str, join: str, place: int, value: int) -> Joined:
        with self._db.transaction(lazily=True) as execute:
            execute(REPORT, (run_id, join, place, value))
            return _joined(execute, run_id, join)

    async def read_join(self, run_id: str, join: str, lanes: Sequence[str] = ()) -> Joined:
        joined = _joined(self._db.rows, run_id, join)
        return replace(joined, lanes=await self.read_logs(run_id, lanes)) if lanes else joined

    async def read_logs(self, run_id: str, tokens: Sequence[str]) -> Mapping[str, Sequence[Saved]]:
        found: dict[str, list[Saved]] = {}
        for token, slot, body in self._db.rows(SELECT_LOGS, (run_id, encode(list(tokens)))):
            if not _is_mark(body):
                found.setdefault(token, []).append(Saved(slot, body))
        return found

    async def read_bodies(self, run_id: str, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        found = {place: self._db.rows(SELECT_SLOT, (run_id, *place)) for place in places}
        return {place: rows[0][0] for place, rows in found.items() if rows and not _is_mark(rows[0][0])}

    async def put_event(self, event: Event, most: int = limits.EVENT_PENDING) -> bool:
        topic = (event.topic.name, event.topic.key)
        values = (event.id, event.at_ms, event.expires_ms, event.consumed_by, event.format, encode(event.payload))
        # Lazily: the message that tells of it follows, and waits for the disk.
        with self._db.transaction(lazily=True) as execute:
            if execute(EVENT_EXISTS, (*topic, event.id)).fetchone():
                return False
            pending = execute(COUNT_PENDING, (*topic, event.at_ms)).fetchone()[0]
            if pending >= most:
                raise too_many_pending(event.topic, most)
            execute(INSERT_EVENT, (*topic, *values))
            return True

    async def get_event(self, topic: Topic, event_id: str) -> Event | None:
        rows = self._db.rows(SELECT_EVENT, (topic.name, topic.key, event_id))
        return event_of(topic, rows[0]) if rows else None

    async def pending_events(self, topic: Topic, now_ms: int, after: str = "") -> Sequence[Event]:
        place = (topic.name, topic.key, now_ms)
        rows = self._db.rows(SELECT_PENDING_AFTER, (*place, after)) if after else self._db.rows(SELECT_PENDING, place)
        events: list[Event] = []
        for row in rows:
            with if_readable(topic, str(row[0])):
                events.append(event_of(topic, row))
        return events

    async def put_waiter(self, waiter: Waiter) -> None:
        values = (*_waiter_key(waiter), waiter.since_ms, waiter.match)
        self._db.change(PUT_WAITER, values, lazily=self._db.comes_again)

    async def waiters(self, topic: Topic) -> Sequence[Waiter]:
        return [Waiter(topic, *row) for row in self._db.rows(SELECT_WAITERS, (topic.name, topic.key))]

    async def count_waiters(self, topic: Topic, most: int) -> int:
        count: int = self._db.rows(COUNT_WAITERS, (topic.name, topic.key, most))[0][0]
        return count

    async def forget_waiter(self, waiter: Waiter) -> None:
        self._db.change(FORGET_WAITER, _waiter_key(waiter), lazily=self._db.comes_again)

    def purge(self, now_ms: int, forget: Callable[[str], None] | None = None) -> int:
        """Deletes ended runs whose retention is over, with their logs, and expired events. Returns the number of runs.

        `forget` deletes what else there is of a run, before its rows go: after a crash it is called again.
        """
        self._db.change(PURGE_EVENTS, (now_ms,))
        self._db.change(PURGE_HELD, (HELD, now_ms))
        purged = 0
        while True:
            with self._db.transaction() as execute:
                expired = execute(SELECT_EXPIRED, (now_ms, PURGE_RUNS)).fetchall()
                for run in expired:
                    if forget is not None:
                        forget(*run)
                    for statement in PURGE_RUN:
                        execute(statement, run)
            purged += len(expired)
            if len(expired) < PURGE_RUNS:
                return purged


def _winner(row: Row) -> str | Marked:
    return Marked() if _is_mark(row[0]) else str(row[0])


def _records(rows: Iterable[Row]) -> list[Saved]:
    return [Saved(slot, body) for slot, body in rows if not _is_mark(body)]


def _is_mark(body: str) -> bool:
    return body.startswith(MARK[:-1])


def _resting(told: str) -> str:
    """The mark that tells it."""
    return f'{MARK[:-1]},"rests":{encode(told)}}}'


def _joined(read: Callable[[str, tuple[str, str]], Iterable[Row]], run_id: str, join: str) -> Joined:
    places: dict[str, int] = dict(read(SELECT_MEMBERS, (run_id, join)))  # 0: in no order
    is_ordered = next(iter(places.values()), 0) > 0  # all of them are, or none
    order = sorted(places, key=places.__getitem__) if is_ordered else ()
    return Joined(frozenset(places), dict(read(SELECT_REPORTS, (run_id, join))), tuple(order))


def _waiter_key(waiter: Waiter) -> tuple[str, str, str, str, int, int]:
    topic = waiter.topic
    return topic.name, topic.key, waiter.run_id, waiter.token, waiter.slot, waiter.arm

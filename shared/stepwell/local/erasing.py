"""Erases the data of a run on SQLite, down to the free pages of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from stepwell.engine.records import ROOT, Topic
from stepwell.engine.waits import branch_topic, run_topic
from stepwell.local.database import Database
from stepwell.local.log_files import LogFile
from stepwell.local.notes import SELECT as SELECT_NOTE
from stepwell.runtime.ports import Event, Forks

_NAMED = (("log", "token"), ("snapshots", "token"), ("joins", "name"), ("reports", "name"))  # tables, by column
_LOGS = tuple(
    f"DELETE FROM {table} WHERE run_id = :run_id AND {column} = :name"  # noqa: S608 - names of tables
    for table, column in _NAMED
)
_BENEATH = tuple(
    f"DELETE FROM {table} WHERE run_id = :run_id AND {column} >= :first AND {column} < :end"  # noqa: S608 - as above
    for table, column in _NAMED
)
_TAGS, _RUN = "DELETE FROM tags WHERE run_id = ?", "DELETE FROM runs WHERE run_id = ?"
# One look-up for each name of an event, of which there are few: events have no index by key.
_TOPICS = """WITH RECURSIVE names(name) AS (SELECT min(name) FROM events UNION ALL
    SELECT (SELECT min(name) FROM events WHERE name > names.name) FROM names WHERE names.name IS NOT NULL)
    SELECT DISTINCT e.name, e.key FROM names JOIN events e ON e.name = names.name
    WHERE e.key = :own OR (e.key >= :first AND e.key < :end)"""
_EVENTS, _WAITS = "DELETE FROM events WHERE name = ? AND key = ?", "DELETE FROM waiters WHERE name = ? AND key = ?"
_EVENT = """DELETE FROM events WHERE name = :name AND key = :key AND id = :id
    AND (:taker = '' OR substr(consumed_by, 1, length(:taker)) = :taker)"""

HELD = "held"  # the kind of the notes that hold the ids of deleted runs
_HOLD = "INSERT OR REPLACE INTO notes (kind, name, body) VALUES (?, ?, ?)"
_GONE = "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM runs WHERE run_id = value)"


class SqliteErasure:
    """The parts of the ports that delete all there is of a run, on a Database."""

    _db: Database
    lines: LogFile | None = None  # which is to forget the runs that are deleted here

    async def erase_logs(self, run_id: str, forks: Forks) -> int:
        with self._db.transaction() as execute:
            return sum(execute(*statement).rowcount for statement in _erasing(run_id, forks))

    async def scrub(self) -> None:
        """Rewrites the file without its free pages, empties its journal, and forgets what deleted runs have logged."""
        self.forget_lines()
        self._db.compact()

    def forget_lines(self) -> None:
        """Deletes what runs have logged that are not there any more. It costs a look at all lines that are kept."""
        if self.lines is not None:
            self.lines.forget(self._gone_of)

    def _gone_of(self, run_ids: set[str]) -> set[str]:
        return {row[0] for row in self._db.rows(_GONE, (json.dumps([*run_ids]),))}

    async def note_topic(self, event: Event, run_id: str) -> None:
        """Does nothing: `topics_to` reads the events themselves."""

    async def topics_to(self, run_id: str) -> Sequence[Topic]:
        own, below = run_topic("", run_id).key, branch_topic("", run_id, "").key
        keys = {"own": own, "first": below, "end": below[:-1] + chr(ord(below[-1]) + 1)}
        return [Topic(name, key) for name, key in self._db.rows(_TOPICS, keys)]

    async def erase_topic(self, topic: Topic) -> None:
        with self._db.transaction() as execute:
            execute(_EVENTS, (topic.name, topic.key))
            execute(_WAITS, (topic.name, topic.key))

    async def erase_event(self, topic: Topic, event_id: str, run_id: str = "") -> None:
        taker = f"{run_id}|" if run_id else ""
        self._db.change(_EVENT, {"name": topic.name, "key": topic.key, "id": event_id, "taker": taker})

    async def held_until_ms(self, run_id: str) -> int:
        rows = self._db.rows(SELECT_NOTE, (HELD, run_id))
        return int(rows[0][0]) if rows else 0

    async def drop_run(self, run_id: str, held_until_ms: int) -> bool:
        with self._db.transaction() as execute:
            execute(_TAGS, (run_id,))
            if not execute(_RUN, (run_id,)).rowcount:
                return False
            execute(_HOLD, (HELD, run_id, str(held_until_ms)))
        return True


def _erasing(run_id: str, forks: Forks) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields what deletes the logs and joins of these forks, then those of the root: each statement with its values."""
    for fork, _, _ in forks:
        for mark in ".@":  # of a branch, of a page's join
            ends = {"run_id": run_id, "first": f"{fork}{mark}", "end": f"{fork}{chr(ord(mark) + 1)}"}
            yield from ((statement, ends) for statement in _BENEATH)
        yield from ((statement, {"run_id": run_id, "name": fork}) for statement in _LOGS)
    yield from ((statement, {"run_id": run_id, "name": ROOT}) for statement in _LOGS)

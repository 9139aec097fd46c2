"""Definitions, and notes by kind and name, in memory and on SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import nsmallest

from stepwell.local.database import Database

SELECT = "SELECT body FROM notes WHERE kind = ? AND name = ?"
SELECT_KIND = "SELECT name, body FROM notes WHERE kind = ? ORDER BY name LIMIT ?"
PUT = """INSERT INTO notes (kind, name, body) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET body = excluded.body WHERE body IN (?, excluded.body)"""
REPLACE = "UPDATE notes SET body = ? WHERE kind = ? AND name = ? AND body IN (?, ?)"
PUT_DEFINITION = "INSERT INTO definitions (version, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
SELECT_DEFINITION = "SELECT body FROM definitions WHERE version = ?"
DROP = "DELETE FROM notes WHERE kind = ? AND name = ? AND (? IS NULL OR body = ?)"


class MemoryNotes:
    """The Notes port in dictionaries."""

    def __init__(self) -> None:
        self._notes: dict[str, dict[str, str]] = defaultdict(dict)
        self._definitions: dict[str, str] = {}

    async def put_definition(self, version: str, body: str) -> None:
        self._definitions.setdefault(version, body)

    async def get_definition(self, version: str) -> str | None:
        return self._definitions.get(version)

    async def put_note(self, kind: str, name: str, body: str, before: str | None, *, replaces: bool = False) -> bool:
        there = self._notes[kind].get(name)
        if there not in ({before, body} if replaces else {None, before, body}):
            return False
        self._notes[kind][name] = body
        return True

    async def get_note(self, kind: str, name: str) -> str | None:
        return self._notes[kind].get(name)

    async def notes(self, kind: str, limit: int | None = None) -> Mapping[str, str]:
        there = self._notes[kind]
        return {name: there[name] for name in (sorted(there) if limit is None else nsmallest(limit, there))}

    async def drop_note(self, kind: str, name: str, before: str | None = None) -> bool:
        there = self._notes[kind].get(name)
        if there is None or before not in {None, there}:
            return there is None and before is not None
        del self._notes[kind][name]
        return True


class SqliteNotes:
    """The Notes port on a Database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def put_definition(self, version: str, body: str) -> None:
        self._db.change(PUT_DEFINITION, (version, body))

    async def get_definition(self, version: str) -> str | None:
        rows = self._db.rows(SELECT_DEFINITION, (version,))
        return rows[0][0] if rows else None

    async def put_note(self, kind: str, name: str, body: str, before: str | None, *, replaces: bool = False) -> bool:
        if replaces:
            return self._db.change(REPLACE, (body, kind, name, before, body), lazily=self._db.comes_again) == 1
        return self._db.change(PUT, (kind, name, body, before), lazily=self._db.comes_again) == 1

    async def get_note(self, kind: str, name: str) -> str | None:
        rows = self._db.rows(SELECT, (kind, name))
        return rows[0][0] if rows else None

    async def notes(self, kind: str, limit: int | None = None) -> Mapping[str, str]:
        return dict(self._db.rows(SELECT_KIND, (kind, -1 if limit is None else limit)))

    async def drop_note(self, kind: str, name: str, before: str | None = None) -> bool:
        is_done = self._db.change(DROP, (kind, name, before, before), lazily=self._db.comes_again) == 1
        return is_done or (before is not None and await self.get_note(kind, name) is None)

"""Definitions, and notes by kind and name, on SQLite."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.local.database import Database

SELECT = "SELECT body FROM notes WHERE kind = ? AND name = ?"
SELECT_KIND = "SELECT name, body FROM notes WHERE kind = ? ORDER BY name LIMIT ?"
PUT = """INSERT INTO notes (kind, name, body) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET body = excluded.body WHERE body IN (?, excluded.body)"""
REPLACE = "UPDATE notes SET body = ? WHERE kind = ? AND name = ? AND body IN (?, ?)"
PUT_DEFINITION = "INSERT INTO definitions (version, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
SELECT_DEFINITION = "SELECT body FROM definitions WHERE version = ?"
DROP = "DELETE FROM notes WHERE kind = ? AND name = ? AND (? IS NULL OR body = ?)"


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

    async def drop_note(self, kind: str, name: str, before: str | None = None, *, once: bool = False) -> bool:
        is_done = self._db.change(DROP, (kind, name, before, before), lazily=self._db.comes_again) == 1
        return is_done or (before is not None and not once and await self.get_note(kind, name) is None)

"""The user's own tables of a dev server, for steps and for people."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stepwell.local.database import Database
from stepwell.local.user_items import LocalTable, SqliteItems
from stepwell.local.wiring import DATABASE_FILE


def open_table(data: str | Path, name: str) -> LocalTable:
    """Opens a table in a dev server's data folder. Its calls raise PortError if there is no such folder."""
    return LocalTable(name, SqliteItems(_database((Path(data) / DATABASE_FILE).resolve())))


@lru_cache(maxsize=8)
def _database(path: Path) -> Database:
    return Database(path)

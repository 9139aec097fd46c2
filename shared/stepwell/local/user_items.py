"""The user's own tables in the dev server's database, and one of them for tests and local steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stepwell.engine.durable.transact import Delete, Put, Refusal
from stepwell.local.database import Database
from stepwell.memory.items import Change, changes_of, decode_item, place_of
from stepwell.runtime.durable.transacting import checked

SELECT_ITEM = "SELECT item FROM user_items WHERE table_name = ? AND place = ?"
SELECT_ITEMS = "SELECT item FROM user_items WHERE table_name = ? ORDER BY place"
PUT_ITEM = """INSERT INTO user_items (table_name, place, item) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET item = excluded.item"""
DROP_ITEM = "DELETE FROM user_items WHERE table_name = ? AND place = ?"


class SqliteItems:
    """The items in the store's database, so that one commit covers both."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def item(self, table: str, place: str) -> str | None:
        rows = self._db.rows(SELECT_ITEM, (table, place))
        return str(rows[0][0]) if rows else None

    def items(self, table: str) -> Sequence[str]:
        return [str(item) for (item,) in self._db.rows(SELECT_ITEMS, (table,))]

    def change_items(self, changes: Sequence[Change]) -> None:
        with self._db.transaction() as execute:
            for change in changes:
                execute(*statement_of(change))


def statement_of(change: Change) -> tuple[str, tuple[object, ...]]:
    """Returns one change as SQL and its values."""
    if change.item is None:
        return DROP_ITEM, (change.table, change.place)
    return PUT_ITEM, (change.table, change.place, change.item)


class HoldsItems(Protocol):
    """What a local store has beside its ports."""

    def item(self, table: str, place: str) -> str | None: ...

    def items(self, table: str) -> Sequence[str]:
        """Returns the items in the order of their places."""

    def change_items(self, changes: Sequence[Change]) -> None: ...


class LocalTable:
    """One of the user's tables, for tests and local steps. Values have the types of boto3's resource."""

    def __init__(self, name: str, held: HoldsItems) -> None:
        self._name, self._held = name, held

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns an item. Raises InvalidInput for a bad key."""
        (write,) = checked([Delete(self._name, key)])
        text = self._held.item(self._name, place_of(write.key))
        return None if text is None else decode_item(text)

    def items(self) -> list[dict[str, Any]]:
        """Returns all items, in the order of their keys as text."""
        return [decode_item(text) for text in self._held.items(self._name)]

    def put(self, key: Mapping[str, Any], item: Mapping[str, Any] | None = None) -> None:
        """Stores an item that exists before a run. Raises InvalidInput."""
        made = changes_of(checked([Put(self._name, key, item or {})]), self._held.item)
        if not isinstance(made, Refusal):
            self._held.change_items(made)

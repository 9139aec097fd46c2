"""The world outside, small: a carrier, a ledger and a mail server, in one SQLite file that outlives every crash.

| variable | means | default |
|---|---|---|
| `SHOP_DATA` | the folder of the file | `.stepwell/shop`; in a Lambda function a temporary one |
| `SHOP_SECONDS` | how long each of them takes to answer | 0 |
| `SHOP_LOST_ANSWERS` | how many answers of the carrier get lost on their way back, per parcel | 0 |
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS parcels (key TEXT PRIMARY KEY, order_id TEXT, address TEXT, asked INTEGER);
CREATE TABLE IF NOT EXISTS ledger (payment_id TEXT PRIMARY KEY, order_id TEXT, amount TEXT, asked INTEGER);
CREATE TABLE IF NOT EXISTS mails (key TEXT PRIMARY KEY, recipient TEXT, text TEXT, asked INTEGER);
"""


@dataclass(frozen=True, slots=True)
class Backoffice:
    """All three of them keep one row per key and count how often they were asked for it."""

    path: Path
    seconds: float = 0.0
    lost_answers: int = 0

    @classmethod
    def open(cls) -> Backoffice:
        """As the environment says."""
        usual = Path(tempfile.gettempdir()) / "shop" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/shop")
        folder = Path(os.environ.get("SHOP_DATA") or usual)
        folder.mkdir(parents=True, exist_ok=True)
        seconds = float(os.environ.get("SHOP_SECONDS") or 0)
        return cls(folder / "backoffice.db", seconds, int(os.environ.get("SHOP_LOST_ANSWERS") or 0))

    def send_parcel(self, key: str, order_id: str, address: str) -> str:
        """Books a collection. Raises ConnectionError when the answer gets lost, which does not unbook it."""
        asked = self._keep("INSERT INTO parcels VALUES (?, ?, ?, 1)", "parcels", (key, order_id, address))
        self.answer()
        if asked <= self.lost_answers:
            raise ConnectionError("the carrier did not answer")
        with self._database() as database:
            row = database.execute("SELECT rowid FROM parcels WHERE key = ?", (key,)).fetchone()
        return f"PX{row[0]:06d}"

    def book(self, payment_id: str, order_id: str, amount: Decimal) -> None:
        """One line of the ledger per payment."""
        self._keep("INSERT INTO ledger VALUES (?, ?, ?, 1)", "ledger", (payment_id, order_id, str(amount)))
        self.answer()

    def mail(self, key: str, recipient: str, text: str) -> None:
        """Sends one mail per key."""
        self._keep("INSERT INTO mails VALUES (?, ?, ?, 1)", "mails", (key, recipient, text))
        self.answer()

    def answer(self) -> None:
        """Takes the time that the world takes."""
        time.sleep(self.seconds)

    def _keep(self, insert: str, table: str, row: tuple[str, ...]) -> int:
        """The row, once per key; returns how often it was asked for."""
        key = "payment_id" if table == "ledger" else "key"
        with self._database() as database:
            again = f" ON CONFLICT ({key}) DO UPDATE SET asked = asked + 1 RETURNING asked"
            return int(database.execute(insert + again, row).fetchone()[0])

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=10)
        try:
            database.executescript(_SCHEMA)
            with database:
                yield database
        finally:
            database.close()

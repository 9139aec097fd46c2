"""The open batch: records that a token's worker has made, and that its log does not have yet.

     step ── step ── step ── 10 records, 16 KB, a quarter of a second, or what others may rely on ── one append
     └─ dies ── its message comes again: these steps run again, one append each

Its records have no effects yet, so nobody has seen anything of them: losing it costs only its steps' time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepwell.engine.records import Record
from stepwell.engine.token import Token
from stepwell.limits import BATCH_BYTES, BATCH_OPEN_MS, BATCH_RECORDS
from stepwell.runtime.log.sizes import about_bytes
from stepwell.runtime.ports import Clock

if TYPE_CHECKING:
    from stepwell.runtime.log.standing import Standing


class OpenBatch:
    """The records of one token that are to be appended together. For the one worker that makes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms, self._bytes = 0, 0
        self.records: tuple[Record, ...] = ()
        self.token: Token | None = None  # the token as its log has it
        self.lost: Standing | None = None  # set if another actor wrote first: the token since then
        self.is_shut = False  # its run or workflow is paused: write the next record at once

    def has_room(self, record: Record) -> bool:
        """Tells whether the record may wait too."""
        if self.is_shut:
            return False
        if not self.records:
            return _size_bytes(record) < BATCH_BYTES and not _took_long(record)
        is_full = len(self.records) + 1 >= BATCH_RECORDS or self._bytes + _size_bytes(record) >= BATCH_BYTES
        return not is_full and self.left_ms() > 0

    def left_ms(self) -> int:
        """Returns for how many milliseconds its records may still wait."""
        return max(self._since_ms + BATCH_OPEN_MS - self._clock.now_ms(), 0)

    def add(self, token: Token, record: Record) -> None:
        """Adds the record. `token`: as it is before the record."""
        if not self.records:
            self.token, self._since_ms, self._bytes = token, self._clock.now_ms(), 0
        self.records += (record,)
        self._bytes += _size_bytes(record)

    def written(self, token: Token, rest: Sequence[Record] = ()) -> None:
        """Keeps only `rest`: the log has the other records, or another actor's. `token`: as its log has it."""
        self.records, self.token, self.is_shut = tuple(rest), token, False


def _took_long(record: Record) -> bool:
    """Tells whether the step took longer than a batch is open, so that a cancel or pause may have its slot."""
    return bool(record.started_ms) and record.at_ms - record.started_ms >= BATCH_OPEN_MS


def _size_bytes(record: Record) -> int:
    return about_bytes([record.output, record.writes])

"""The open batch: records that a token's worker has made, and that its log does not have yet.

    step ── step ── step ── 10 records, 16 KB, a quarter of a second, or what others may rely on ── one append
    └─ dies ── its message comes again: these steps run again, one append each

What is in it has no effects, so nobody has seen anything of it. It is worth its steps' time, and nothing else.
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
    """Records of one token that are to be appended together. For the one worker that makes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms, self._bytes = 0, 0
        self.records: tuple[Record, ...] = ()
        self.token: Token | None = None  # as its log has it
        self.lost: Standing | None = None  # another was first: where the token is since, while a step still runs here
        self.is_shut = False  # its run is paused, or its workflow: the next record is to be written, and looked at

    def has_room(self, record: Record) -> bool:
        """Whether the record may wait too."""
        if self.is_shut:
            return False
        if not self.records:
            return _size_bytes(record) < BATCH_BYTES and not _took_long(record)
        is_full = len(self.records) + 1 >= BATCH_RECORDS or self._bytes + _size_bytes(record) >= BATCH_BYTES
        return not is_full and self.left_ms() > 0

    def left_ms(self) -> int:
        """For how long its records may still wait."""
        return max(self._since_ms + BATCH_OPEN_MS - self._clock.now_ms(), 0)

    def add(self, token: Token, record: Record) -> None:
        """Keeps the record. `token`: as it is before it."""
        if not self.records:
            self.token, self._since_ms, self._bytes = token, self._clock.now_ms(), 0
        self.records += (record,)
        self._bytes += _size_bytes(record)

    def written(self, token: Token, rest: Sequence[Record] = ()) -> None:
        """The log has what was in it, but for the rest; or another's record. `token`: as its log has it."""
        self.records, self.token, self.is_shut = tuple(rest), token, False


def _took_long(record: Record) -> bool:
    """Whether a cancel or a pause may stand in its slot for longer than a batch is open."""
    return bool(record.started_ms) and record.at_ms - record.started_ms >= BATCH_OPEN_MS


def _size_bytes(record: Record) -> int:
    return about_bytes([record.output, record.writes])

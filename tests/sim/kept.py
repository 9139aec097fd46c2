"""What one schedule reads again and again is decoded once: a record is a value, which nobody changes.

Kept by its text and by the version of the code that reads it, for one schedule. The laws about encodings decode anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine import formats, token_batches
from stepwell.engine.codec import decode_record
from stepwell.engine.records import Record

CHECKED = 16  # of so many schedules, one decodes all records anew at its end


class Kept:
    """Records by their text, as each version of the code reads them."""

    def __init__(self) -> None:
        self._decode: Callable[[str], Record] = decode_record
        self._found: dict[tuple[str, int], Record] = {}

    def decode(self, body: str) -> Record:
        """As `decode_record`. What cannot be read is tried anew each time."""
        place = body, formats.FORMAT
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = self._decode(body)
        return found

    def changed(self) -> list[Record]:
        """The records that somebody has changed since they were read, by this version of the code."""
        mine = [(body, found) for (body, number), found in self._found.items() if number == formats.FORMAT]
        return [found for body, found in mine if found != self._decode(body)]


@contextmanager
def kept_records() -> Iterator[Kept]:
    """Whatever decodes a token's log finds what was decoded before."""
    kept: Any = Kept()
    with mock.patch.object(token_batches, "decode_record", kept.decode):
        yield kept

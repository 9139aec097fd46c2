"""What one schedule reads again and again is decoded and folded once: records and tokens are values.

Kept for one schedule: what was decoded by its text and the version of the code that reads it, what was folded by the
token, as a value, and the kept record that it was made of. The laws about encodings decode anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias
from unittest import mock

from stepwell.engine import fold
from stepwell.engine.records import Record
from stepwell.engine.stored import formats, token_batches
from stepwell.engine.token import Token
from stepwell.runtime.log import logbook, token_reader
from stepwell.runtime.steps import binding

CHECKED = 16  # of so many schedules, one decodes and folds all anew at its end
CONVERTER_OF = lru_cache(binding.converter_of)  # of a type: each schedule has functions of its own, of the same types
Place: TypeAlias = tuple[str, int, int]  # a text, and the versions of format and fold of who reads it


class Kept:
    """Records and snapshots by their text, as each version of the code reads them, and tokens by their last record."""

    def __init__(self, decode: Callable[[str], Record], snapshot: Callable[[str], Token | None], apply: Any) -> None:
        """What is done where nothing is kept, by the engine or by a mutant of it."""
        self._decode, self._snapshot, self._apply = decode, snapshot, apply
        self._records: dict[Place, Record] = {}
        self._ids: set[int] = set()  # of these records
        self._snapshots: dict[Place, Token | None] = {}
        self._tokens: dict[tuple[int, int], tuple[Token, Record, Token]] = {}
        self._firsts: dict[tuple[str, int], list[Token]] = {}  # what is folded on from, each value once
        self._known: set[int] = set()  # the ids of all tokens that are kept

    def decode(self, body: str) -> Record:
        """As `decode_record`. What cannot be read is tried anew each time."""
        place = body, formats.FORMAT, formats.FOLD
        found = self._records.get(place)
        if found is None:
            found = self._records[place] = self._decode(body)
            self._ids.add(id(found))
        return found

    def snapshot(self, body: str) -> Token | None:
        """As `decode_snapshot`."""
        place = body, formats.FORMAT, formats.FOLD
        if place not in self._snapshots:
            self._snapshots[place] = self._snapshot(body)
        return self._snapshots[place]

    def apply(self, token: Token, record: Record) -> Token:
        """As `apply`."""
        if id(record) not in self._ids:
            return self._apply(token, record)  # type: ignore[no-any-return]  # it is whatever fold has
        token = self._same(token)
        place = id(token), id(record)
        found = self._tokens.get(place)
        if found is None:
            found = self._tokens[place] = token, record, self._apply(token, record)
            self._known.add(id(found[2]))
        return found[2]

    def _same(self, token: Token) -> Token:
        """Returns the kept token that equals this one: whoever reads a log begins with a token of its own."""
        if id(token) in self._known:
            return token
        firsts = self._firsts.setdefault((token.id, token.slot), [])
        found = next((one for one in firsts if one == token), None)
        if found is None:
            firsts.append(token)
            self._known.add(id(token))
        return found or token

    def changed(self) -> list[Record | Token | None]:
        """What somebody has changed since it was read, as far as this version of the code reads it."""
        mine = (formats.FORMAT, formats.FOLD)
        records = [one for (body, *by), one in self._records.items() if (*by,) == mine and one != self._decode(body)]
        saved = [one for (body, *by), one in self._snapshots.items() if (*by,) == mine and one != self._snapshot(body)]
        tokens = [one for token, record, one in self._tokens.values() if one != self._apply(token, record)]
        return [*records, *saved, *tokens]


@contextmanager
def kept_values() -> Iterator[Kept]:
    """Whatever reads a token's log finds what was read before."""
    codec: Any = token_batches
    book: Any = logbook
    kept = Kept(codec.decode_record, book.decode_snapshot, fold.apply)
    with (
        mock.patch.object(token_batches, "decode_record", kept.decode),
        mock.patch.object(logbook, "decode_snapshot", kept.snapshot),
        mock.patch.object(token_reader, "decode_snapshot", kept.snapshot),
        mock.patch.object(fold, "apply", kept.apply),
        mock.patch.object(binding, "converter_of", CONVERTER_OF),
    ):
        yield kept

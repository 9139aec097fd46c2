"""Quiet records: those that led to nothing beside their own item. Most of a long run's records are such.

A ledger folds a log up to the last record that is not quiet, and encodes none whose size does not matter.
"""

from __future__ import annotations

import json

from stepwell.engine.fold import fold
from stepwell.engine.records import Goto, Kind, Record, RetryAt
from stepwell.engine.stored.jsons import fast_encoder
from stepwell.engine.token import Token

KILOBYTE = 1_024
_KINDS = frozenset({Kind.STEP, Kind.MOVED})
_GO_ON = frozenset({Goto, RetryAt})
_FRAME_BYTES = 400  # at most, of a record's names of fields and its numbers, and of what the item has beside its body
_CHARACTER_BYTES = 6  # at most, as JSON: an escape
_text = fast_encoder(json.JSONEncoder())  # no shorter than a record has it


class Folding:
    """A token on its way through its records, folded where somebody asks."""

    def __init__(self, token: Token, known: Token | None = None) -> None:
        """`known`: the token at its end, if it has one, which need not be folded again."""
        self.token, self._end = token, known if known is not None and known.ended else None
        self._behind: list[Record] = []

    def passes(self, record: Record) -> bool:
        """Tells whether the next record is quiet. It is folded with the next one that is not."""
        self._behind.append(record)
        return _is_quiet(self.token, record)

    def after(self, record: Record) -> Token:
        """Returns the token after the record that was passed last."""
        known = self._end
        self.token = known if known is not None and known.slot == record.slot else fold(self._behind, self.token)
        self._behind.clear()
        return self.token


def _is_quiet(token: Token, record: Record) -> bool:
    """Tells whether a record has no effects: a step ended, or a node was passed, and the token goes on.

    `token`: as it was at some record before, since when all records are quiet. What it holds, it may give back.
    """
    if record.kind not in _KINDS or type(record.next) not in _GO_ON:
        return False
    return token.locks is None and token.permit is None and token.share is None


def is_small(record: Record, names: int) -> bool:
    """Tells of a record whether its item has less than a kilobyte for sure, without encoding it.

    `names`: the characters of the run's id and the token's in the item's key.
    """
    if record.kind not in _KINDS or type(record.next) is not Goto or record.error or record.writes or record.answers:
        return False
    said = len(record.by) + len(record.node) + len(record.next.node) + sum(map(len, record.rules))
    characters = said + len(record.task) + len(record.taken) + names
    return len(_text(record.output)) + _CHARACTER_BYTES * characters + _FRAME_BYTES <= KILOBYTE

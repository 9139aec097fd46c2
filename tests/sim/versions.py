"""Old and new code in turn over one store: a deploy in the middle of a schedule, and at times its rollback.

    calls ──▶   old │ old and new │ [old │ old and new] │ new

New code writes the next format: other names for what records, snapshots and wakes hold, and larger pages of forks. Old
code that read them nevertheless would lose what is under those names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, TypeVar
from unittest import mock

from stepwell import limits
from stepwell.engine.records import Record
from stepwell.engine.stored import batches, codec, formats, token_batches
from stepwell.engine.stored import snapshots as snapshot_codec
from stepwell.engine.token import Token
from stepwell.runtime.log import messages
from stepwell.runtime.log.messages import Message, Wake

T = TypeVar("T")

OLD = (formats.FORMAT, formats.FOLD)
NEW = (formats.FORMAT + 1, formats.FOLD + 1)
_NEVER = 1_000_000_000  # bytes


class Deploy:
    """When which code is there, by the calls that the world has seen."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        stages = [("old", rng.randrange(100)), ("both", rng.randrange(50, 400))]
        if rng.random() < 0.5:
            stages += [("old", rng.randrange(20, 300)), ("both", rng.randrange(50, 400))]
        ends = accumulate(length for _, length in stages)
        self._stages = [(end, stage) for (stage, _), end in zip(stages, ends, strict=True)]

    def takes_old(self, calls: int) -> bool:
        """Whether old code takes the next message."""
        stage = next((stage for end, stage in self._stages if calls < end), "new")
        return stage == "old" or (stage == "both" and self._rng.random() < 0.5)


def as_old(call: Callable[[Any], T], given: Any) -> T:
    """What old code does until its next call to a port."""
    return _as(False, call, given)


def as_seen(call: Callable[[Any], T], given: Any) -> T:
    """What the laws make of stored data, whoever is at work meanwhile."""
    return _as(codec._record_to_json is _record_to_json, call, given)


def _as(new: bool, call: Callable[[Any], T], given: Any) -> T:
    before = is_new()
    _become(new)
    try:
        return call(given)
    finally:
        _become(before)


def is_new() -> bool:
    return (formats.FORMAT, formats.FOLD) == NEW


def _become(new: bool) -> None:
    if new != is_new():
        formats.FORMAT, formats.FOLD = NEW if new else OLD
        formats.NEWEST = formats.REFERRING if new else formats.FORMAT  # old code knows no lanes
        limits.PAGE_BRANCHES += 1 if new else -1
        limits.OUTPUT_HELD_BYTES -= _NEVER if new else -_NEVER  # it has each output where it ended


@contextmanager
def two_versions() -> Iterator[None]:
    """Whoever is not run by `as_old` is new code: the laws too, which read everything."""
    with (
        mock.patch.multiple(formats, FORMAT=NEW[0], FOLD=NEW[1], NEWEST=formats.REFERRING),
        mock.patch.object(limits, "PAGE_BRANCHES", limits.PAGE_BRANCHES + 1),
        mock.patch.object(codec, "_record_to_json", _record_to_json),
        mock.patch.object(codec, "record_fields", _record_fields),
        mock.patch.object(batches, "record_fields", _record_fields),
        mock.patch.object(token_batches, "record_fields", _record_fields),
        mock.patch.object(snapshot_codec, "_token_from_json", _token_from_json),
        mock.patch.object(codec, "encode_json", _encode),
        mock.patch.object(messages, "_body", _body),
        mock.patch.object(messages, "_wake_of", _wake_of),
    ):
        yield


_real_record_to_json, _real_record_fields = codec._record_to_json, codec.record_fields
_real_token_from_json, _real_encode = snapshot_codec._token_from_json, codec.encode_json
_real_body, _real_wake_of = messages._body, messages._wake_of


def _renamed(raw: Mapping[str, Any], before: str, after: str) -> dict[str, Any]:
    return {after if name == before else name: value for name, value in raw.items()}


def _record_to_json(record: Record) -> dict[str, Any]:
    raw = _real_record_to_json(record)
    return _renamed(raw, "output", "made") if is_new() else raw


def _record_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    return _real_record_fields(_renamed(raw, "made", "output") if is_new() else raw)


def _encode(raw: Mapping[str, Any]) -> str:
    return _real_encode(_renamed(raw, "scope", "state") if is_new() and "fold" in raw else raw)


def _token_from_json(raw: Mapping[str, Any]) -> Token:
    """New code knows nothing of `scope`, as old code knows nothing of `state`."""
    if not is_new():
        return _real_token_from_json(raw)
    known = {name: value for name, value in raw.items() if name != "scope"}
    return _real_token_from_json(_renamed(known, "state", "scope"))


def _body(message: Message) -> dict[str, Any]:
    raw = _real_body(message)
    return _renamed(raw, "slot", "record") if is_new() and isinstance(message, Wake) else raw


def _wake_of(raw: Mapping[str, Any]) -> Wake:
    return _real_wake_of(_renamed(raw, "record", "slot") if is_new() else raw)

"""Mutants of deploys: each loses what newer or older code has stored, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine.stored import formats
from stepwell.engine.stored import snapshots as snapshot_codec
from stepwell.engine.token import Token
from stepwell.runtime import dispatch


@contextmanager
def newer_dropped() -> Iterator[None]:
    """A message that needs newer code is deleted, not put off."""

    async def leave(*_: Any) -> None:
        return None

    with mock.patch.object(dispatch, "_leave", leave):
        yield


@contextmanager
def newer_misread() -> Iterator[None]:
    """Old code reads what it knows of newer data."""
    with mock.patch.object(formats, "check_format", return_value=None):
        yield


@contextmanager
def newer_cut_short() -> Iterator[None]:
    """A message that is put off keeps the fields alone that old code knows."""
    leave = dispatch._leave

    async def cut(parts: Any, lane: Any, body: Any, newer: Any) -> None:
        known = ("type", "run_id", "token", "pool", "hops", "count", formats.KEY)
        await leave(parts, lane, {name: body[name] for name in known if name in body}, newer)

    with mock.patch.object(dispatch, "_leave", cut):
        yield


@contextmanager
def any_fold_believed() -> Iterator[None]:
    """A snapshot is taken as it is, whichever fold made it."""

    def believed(raw: Any) -> Token | None:
        return snapshot_codec._token_from_json(raw)

    with mock.patch.object(snapshot_codec, "_token_of_our_fold", believed):
        yield


OF_DEPLOYS = (newer_dropped, newer_misread, newer_cut_short, any_fold_believed)

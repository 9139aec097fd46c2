"""Mutants of limits: each takes one law of the permits away, and the simulator must notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from stepwell.engine.actions import Share
from stepwell.engine.records import Status
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.waits import lines
from stepwell.runtime.waits.lines import Board, Lines
from stepwell.runtime.waits.permits import Permits

_give_back = Permits.give_back


@contextmanager
def permit_taken_blindly() -> Iterator[None]:
    """A note of holders is written over whatever another wrote meanwhile."""

    async def write(self: Lines, name: str, shard: str, board: Board, ids: Sequence[str]) -> bool:
        kind = lines._kind(name)
        body = json.dumps(list(ids))
        while not await self._notes.put_note(kind, shard, body, await self._notes.get_note(kind, shard)):
            continue
        if not ids:
            await self._notes.drop_note(kind, shard, body)
        return True

    with mock.patch.object(Lines, "_write", write):
        yield


@contextmanager
def permit_granted_untold() -> Iterator[None]:
    """Who lets the next run begin does not wake it."""

    async def seen_to(self: Lines, share: Share, but: str, granted: str = "", **_: object) -> Board:
        return await self.read(share)

    with mock.patch.object(Lines, "seen_to", seen_to):
        yield


@contextmanager
def permit_returned_by_success() -> Iterator[None]:
    """Only a run that completes returns its permit."""

    async def give_back(self: Permits, at: Standing) -> None:
        if at.token.end is not None and at.token.end.status is Status.COMPLETED:
            await _give_back(self, at)

    with mock.patch.object(Permits, "give_back", give_back):
        yield


OF_LIMITS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    permit_taken_blindly,
    permit_granted_untold,
    permit_returned_by_success,
)

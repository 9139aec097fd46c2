"""The live feed of this process: WebSockets at `/stream`, told after each commit.

While nobody watches, a commit costs a look at an empty set more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from stepwell.errors import StepwellError, UserError
from stepwell.limits import LIVE_WATCHERS
from stepwell.runtime.calls.following import entries_since
from stepwell.runtime.calls.service import Service
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.live import Topic, cursor_in, error_frame, frames_of, live_entry
from stepwell.runtime.notify.telling import Notice
from stepwell.values import dataclass

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_logger = logging.getLogger("stepwell.live")

QUEUED_CHARACTERS = 2_000_000  # for one watcher; one that is slower is let go, and comes back with its cursor
TOLD_SECONDS = 5.0  # for the reason to reach a watcher that is let go
GOING_AWAY, REFUSED, FAILED, BUSY = 1001, 1008, 1011, 1013  # RFC 6455


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a feed: its close code, and why."""

    code: int = GOING_AWAY
    reason: str = ""


class _Watcher:
    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[str | _End] = asyncio.Queue()
        self._queued_characters = 0
        self.is_behind = asyncio.Event()  # it reads more slowly than runs go on, or not at all

    def put(self, frame: str | _End) -> None:
        """Queues a frame, or the end of the feed, from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self._loop.call_soon_threadsafe(self._queue, frame)

    def _queue(self, frame: str | _End) -> None:
        self._queued_characters += _characters(frame)
        if self._queued_characters > QUEUED_CHARACTERS:
            self.is_behind.set()
        if not self.is_behind.is_set():
            self._frames.put_nowait(frame)

    async def next(self) -> str | _End:
        """Returns the next frame, or the end."""
        frame = await self._frames.get()
        self._queued_characters -= _characters(frame)
        return frame


class LiveFeed:
    """Watchers of this process, and what they are told."""

    def __init__(self) -> None:
        self._watchers: frozenset[_Watcher] = frozenset()  # replaced, never changed: threads read it
        self._is_closing = False

    @property
    def wanted(self) -> bool:
        return bool(self._watchers)

    def tell(self, notices: Sequence[Notice]) -> None:
        """Queues what was committed for those who watch it."""
        entries = [live_entry(notice) for notice in notices]
        for watcher in self._watchers:
            wanted = [one for one in entries if watcher.topic.wants(one.run_id, one.workflow)]
            for frame in frames_of(wanted):
                watcher.put(frame)

    def close(self) -> None:
        """Ends all feeds, because the server stops."""
        self._is_closing = True
        for watcher in self._watchers:
            watcher.put(_End())

    async def serve(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one WebSocket from its connect to its end."""
        await receive()  # websocket.connect
        if len(self._watchers) >= LIVE_WATCHERS or self._is_closing:
            await send({"type": "websocket.close", "code": BUSY})
            return
        watcher = _Watcher(_topic_of(scope))
        await send({"type": "websocket.accept"})
        self._watchers |= {watcher}
        sending = asyncio.ensure_future(_send_frames(watcher, send))
        answering = asyncio.ensure_future(_answer(service, watcher, receive))
        falling_behind = asyncio.ensure_future(watcher.is_behind.wait())
        tasks = (sending, answering, falling_behind)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answering.done() and answering.result():  # it is told why, unless it reads nothing
                await asyncio.wait((sending, falling_behind), timeout=TOLD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watchers -= {watcher}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _send_frames(watcher: _Watcher, send: Send) -> None:
    while isinstance(frame := await watcher.next(), str):
        await send({"type": "websocket.send", "text": frame})
    await send({"type": "websocket.close", "code": frame.code, "reason": frame.reason})


async def _answer(service: Service, watcher: _Watcher, receive: Receive) -> bool:
    """Answers the watcher's messages until it goes. Returns True if it is to be let go, once it was told why."""
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text") or (message.get("bytes") or b"").decode("latin-1")
        try:
            watcher.put(await asyncio.to_thread(_page, service, watcher.topic, text))
        except StepwellError as error:  # such as a cursor that is no entry's
            _logger.info("a watcher is let go: %s", error)
            watcher.put(error_frame(error))
            watcher.put(_End(REFUSED if isinstance(error, UserError) else FAILED, error.code))
            return True
    return False


def _characters(frame: str | _End) -> int:
    return len(frame) if isinstance(frame, str) else 0


def _page(service: Service, topic: Topic, message: str) -> str:
    return run_now(entries_since(service, topic, cursor_in(message)))


def _topic_of(scope: Scope) -> Topic:
    asked = parse_qs(scope["query_string"].decode("latin-1"))
    return Topic(asked.get("run", [""])[0], asked.get("workflow", [""])[0])

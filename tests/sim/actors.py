"""Who is at work in a world, on which message, and where they stop."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

START_MS = 1_700_000_000_000


@types.coroutine
def stop(what: str) -> Generator[str, bool, bool]:
    """A place where the scheduler takes over. True: this actor is to see an error here."""
    return (yield what)


@dataclass(eq=False)
class Envelope:
    """A message under way, or a client's call; a client repeats its call until it is answered."""

    kind: str  # work | resume | client
    body: Mapping[str, Any]
    at_ms: int = 0
    deliveries: int = 0
    number: int = 0
    is_left: bool = False  # to newer code, by old code that took it
    is_late: bool = False  # due before, but the queue is backed up
    again: int = 0  # how often its client had made the call before, and was answered

    def __str__(self) -> str:
        inner = {key: value for key, value in self.body.items() if key not in {"type", "run_id", "payload"}}
        return f"{self.kind}#{self.number} {self.body.get('type', '')}{inner}"


@dataclass(eq=False)
class Actor:
    """Somebody at work on a envelope."""

    name: str
    envelope: Envelope
    coroutine: Coroutine[Any, Any, None]
    skew_ms: int
    at: str = "start"
    read: dict[tuple[str, str], int] = field(default_factory=dict)
    """(run, token) -> how many of its records this actor saw, of a page"""
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    """(run, token) -> how many of its records this actor saw, of the lane where it began"""
    worker: int = 0  # the process where it works
    ran: dict[str, list[Any]] = field(default_factory=dict)  # the attempts whose records it is to append, by token
    undid: Any = None  # the compensation that it ran last: the call, and whether it did what it should
    is_old: bool = False  # its code is that of before a deploy
    is_zombie: bool = False  # its lease ran out: its message is another's
    since_ms: int = 0  # when it took its envelope
    delivery: int = 1  # which delivery of that it was
    since: int = 0  # how many records the world had then
    is_behind: bool = False  # another was first while its step ran: what comes of that is dropped
    doom: tuple[str, bool] | None = None  # the call to a port where it dies, and whether behind it
    last_call: str = ""
    looked_at: int = -1  # how many events had been stored when it began its last look into the mailbox
    step: tuple[str, str] = ("", "")  # (run, token) of the step in which it is
    turns: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(limit, when) of turns under rate limits that this actor took, and has not stored or given back"""
    until_ms: int = 0  # in a step that takes time: until then

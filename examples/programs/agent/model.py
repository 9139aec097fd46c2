"""The model: here a few rules that always say the same. A REAL CALL GOES INTO `stream`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Call:
    """A tool that the model wants to be run."""

    tool: str
    argument: str


@dataclass
class Message:
    """One entry of the conversation."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: list[Call] = field(default_factory=list)


def stream(said: list[Message]) -> Iterator[str | Call]:
    """The next message, piece by piece: words, then the tools that it wants."""
    heard = [message.text for message in said if message.role == "tool"]
    if not heard:
        yield from ("Let me ", "look.")
        yield from (Call("search", place) for place in said[0].text.split(", "))
    elif len(heard) == len(said[0].text.split(", ")):
        yield "The cheapest."
        yield Call("book", min(heard, key=len))
    else:
        yield from ("Done: ", heard[-1])

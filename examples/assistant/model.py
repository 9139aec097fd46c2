"""The model: here a few rules that always answer the same, in a real assistant a call to one.

To use a real one, replace the bodies of `ask` and `summarise`: send the conversation and the tools, and turn what comes
back into a Message. What the model said is recorded like any other result: it is asked once, not in every replay.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel

from stepwell import StepContext

AT_ONCE = 3  # so many orders it looks up in one turn
_ORDER = re.compile(r"\b[A-Z]-\d+\b")


class Call(BaseModel):
    """A tool that the model wants to be run, and its arguments."""

    tool: str
    arguments: dict[str, Any]


class Message(BaseModel):
    """One entry of the conversation."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: list[Call] = []


def ask(conversation: list[Message], ctx: StepContext) -> Message:
    """The next message: calls of tools, or the answer. A REAL CALL GOES HERE, with ctx.idempotency_key if it takes one.

    `ConnectionError` and `TimeoutError` are tried again; so is a `stepwell.Transient`, for a model that is overloaded.
    """
    latest = _latest(conversation)
    unknown = [order for order in _orders(conversation[0].text) if order not in latest]
    if unknown:
        calls = [Call(tool="look_up", arguments={"order_id": order}) for order in unknown[:AT_ONCE]]
        return Message(role="assistant", text="Let me look.", calls=calls)
    broken = [order for order, line in latest.items() if "arrived broken" in line]
    if broken:
        calls = [Call(tool="refund", arguments={"order_id": order}) for order in broken]
        return Message(role="assistant", text="These are to be paid back.", calls=calls)
    return Message(role="assistant", text="\n".join(latest.values()))


def summarise(conversation: list[Message]) -> str:
    """What is to be remembered of messages that are dropped. ANOTHER REAL CALL GOES HERE."""
    return "\n".join(_latest(conversation).values())


def _latest(conversation: list[Message]) -> dict[str, str]:
    """The last line about each order, of what the tools have said and what was kept of it."""
    lines = [line for message in conversation if message.role == "tool" for line in message.text.splitlines()]
    return {order: line for line in lines for order in _orders(line)}


def _orders(text: str) -> list[str]:
    return list(dict.fromkeys(_ORDER.findall(text)))

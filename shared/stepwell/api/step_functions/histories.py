"""The history of an execution, page by page, from either end.

A page is told from the beginning of the run, since events have numbers. Its token is the number of its last event.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator

from stepwell.api.exchange import Call
from stepwell.api.step_functions import arns, asked
from stepwell.api.step_functions.events import Events
from stepwell.api.step_functions.executions import BY_DEFAULT, Told, following
from stepwell.api.step_functions.kinds import Kinds
from stepwell.api.step_functions.refusals import Refused
from stepwell.limits import ANSWERED_BYTES
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.stores.jsontext import encode

_TOKEN = re.compile(r"(after|before)-([0-9]{1,9})", re.ASCII)
_PAGE_BYTES = ANSWERED_BYTES // 3  # of events, whose texts are escaped once more on their way


async def history(call: Call, given: asked.History) -> Told:
    place, header = await arns.execution_of(given.execution_arn, call)
    events = _events(call, header, place.region, has_data=given.include_execution_data)
    most = given.max_results or BY_DEFAULT
    word = "before" if given.reverse_order else "after"
    at = _at(given.next_token, word)
    page = await (_backward(events, at, most) if given.reverse_order else _forward(events, at or 0, most))
    is_more, fitting = len(page) > most, _fitting(page[:most])
    is_more = is_more or len(fitting) < len(page)
    return {"events": fitting, **following(f"{word}-{fitting[-1]['id']}" if is_more else "")}


async def _events(call: Call, header: Header, region: str, *, has_data: bool) -> AsyncIterator[Told]:
    service = call.parts.service
    events = Events(Kinds(await service.graph_of(header)), region, has_data=has_data)
    async for entry in (await service.node_narrator(header.run_id)).entries():
        for event in events.of(entry):
            yield event


async def _forward(events: AsyncIterator[Told], after: int, most: int) -> list[Told]:
    """The events that follow this one, and one more than a page."""
    found: list[Told] = []
    async for event in events:
        if event["id"] > after:
            found.append(event)
        if len(found) > most:
            break
    return found


async def _backward(events: AsyncIterator[Told], before: int | None, most: int) -> list[Told]:
    found: deque[Told] = deque(maxlen=most + 1)
    async for event in events:
        if before is not None and event["id"] >= before:
            break
        found.append(event)
    return [*reversed(found)]


def _fitting(page: list[Told]) -> list[Told]:
    """The first ones that an answer has room for, at least one."""
    size = 0
    for number, event in enumerate(page):
        size += len(encode(event).encode())
        if number and size > _PAGE_BYTES:
            return page[:number]
    return page


def _at(token: str, word: str) -> int | None:
    if not token:
        return None
    found = _TOKEN.fullmatch(token)
    if found is None or found[1] != word:
        raise Refused("InvalidToken", "the token was not made by this call; leave it out to begin with the first page")
    return int(found[2])

"""Handlers of dead letters: messages that nobody could take."""

from __future__ import annotations

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import Body, LettersQuery, NoQuery
from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.calls import dead


class SendBackBody(Body):
    ids: list[str] = Field(default_factory=list, max_length=PAGE_ITEMS_MAX, description="of dead letters")
    all: bool = Field(False, description="all; of more than 500 on AWS, some: call again until `sent` is empty")


class DeleteLettersBody(Body):
    ids: list[str] = Field(default_factory=list, max_length=PAGE_ITEMS_MAX, description="of dead letters")
    unreadable: bool = Field(False, description="all that cannot be read")


async def list_letters(call: Call) -> Answer:
    """Lists messages that nobody could take."""
    asked = call.asked(LettersQuery)
    found = await call.parts.dead.letters(asked.limit)
    return Answer(200, {"items": [dead.show_letter(one) for one in found], "next_cursor": None})


async def get_letter(call: Call) -> Answer:
    """Shows one of them, with its message, but for an event's payload."""
    call.asked(NoQuery)
    found = await dead.letter(call.parts.dead, call.path["letter_id"], PAGE_ITEMS_MAX)
    message = {name: value for name, value in (found.body or {}).items() if name != "payload"}
    return Answer(200, {**dead.show_letter(found), "message": message})


async def send_back(call: Call) -> Answer:
    """Sends dead letters back to the queues that they came from."""
    call.asked(NoQuery)
    body = call.body(SendBackBody)
    if bool(body.ids) == body.all:
        raise InvalidInput("name dead letters, or all", code="no_letters", hint='{"ids": […]} or {"all": true}')
    dead_queue = call.parts.dead
    sent = await dead_queue.send_back(None if body.all else frozenset(body.ids))
    asked = {one.id for one in await dead_queue.letters(PAGE_ITEMS_MAX)} if body.all else set(body.ids)
    left: list[Json] = sorted(asked - set(sent))
    return Answer(200, {"sent": list(sent), "left": left})


async def delete_letters(call: Call) -> Answer:
    """Deletes dead letters for good."""
    call.asked(NoQuery)
    body = call.body(DeleteLettersBody)
    if bool(body.ids) == body.unreadable:
        hint = '{"ids": […]} or {"unreadable": true}'
        raise InvalidInput("name dead letters, or the unreadable ones", code="no_letters", hint=hint)
    dead_queue = call.parts.dead
    ids = frozenset(body.ids)
    if body.unreadable:
        ids = frozenset(one.id for one in await dead_queue.letters(PAGE_ITEMS_MAX) if not dead.is_readable(one))
    deleted = await dead_queue.delete(ids) if ids else ()
    left: list[Json] = sorted(ids - set(deleted))
    return Answer(200, {"deleted": list(deleted), "left": left})


DEAD_ROUTES = (
    Route("GET", "/dlq", list_letters, "List messages that nobody could take", {200: "some of them"}, "LetterPage",
          query=LettersQuery),
    Route("GET", "/dlq/{letter_id}", get_letter, "Show a message that nobody could take",
          {200: "the message, without an event's payload", 404: "no such dead letter"}, "LetterView"),
    Route("POST", "/dlq:redrive", send_back, "Send dead letters back to their queues",
          {200: "`left`: those that are not there, or cannot be read", 422: "no ids, and not `all`"},
          "SentBackView", SendBackBody),
    Route("POST", "/dlq:delete", delete_letters, "Delete dead letters",
          {200: "`left`: those that are not there", 422: "no ids, and not `unreadable`"},
          "DeletedLettersView", DeleteLettersBody),
)  # fmt: skip

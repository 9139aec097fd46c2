"""The routes of stored deliveries: listing them, and replaying one with today's webhooks.yaml.

A replay is a separate event or run with the id `ID~replay-N` (of a long ID, its hash). A delivery that already became
one, by itself or by a replay, is replayed again only on request. Two callers without that request use the same number,
so they make the same event or run:

    one caller     finds no replay ──▶ publishes ID~replay-1 ───────────────────────────▶ notes it
    another        finds no replay ─────────▶ publishes ID~replay-1: it is there already ──▶ notes it
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from stepwell.api.deliveries import delivery_view
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.asking import paged
from stepwell.api.requests import DeliveriesQueryString, NoQuery, ReplayBody
from stepwell.api.webhooks.sources import Meaning, Source, as_unmappable, body_of, meaning_of, source_named
from stepwell.api.webhooks.taking import Taken, name_of, take
from stepwell.errors import Conflict, InvalidInput, NotFound
from stepwell.limits import DELIVERY_KEPT_MAX_MS, KEY_CHARACTERS, REPLAYS
from stepwell.runtime.notify.deliveries import Deliveries, Delivery, Listed, days
from stepwell.runtime.stores.answers import decode_cursor, encode_cursor

Sources = Callable[[], Mapping[str, Source]]


def delivery_routes(sources: Sources) -> tuple[Route, ...]:
    """Builds the routes; `sources` is called for each request, because the sources may change."""

    async def list_deliveries(call: Call) -> Answer:
        asked = call.asked(DeliveriesQueryString)
        known = sources()
        named = [source_named(known, asked.source)] if asked.source else [one for one in known.values() if one.keep_ms]
        found, cursor = await _page(call, named, asked)
        return paged([delivery_view(one) for one in found], cursor)

    async def replay_delivery(call: Call) -> Answer:
        call.asked(NoQuery)
        body = call.body(ReplayBody)
        return await _replay(call, source_named(sources(), body.source), body)

    listing = {200: "a page", 404: "no such source"}
    replaying = {
        202: "accepted, or `match` is false (`ignored`)",
        400: "it still cannot be mapped",
        404: "no such source or delivery",
        409: "it already became an event or a run, and `again` is not set",
    }
    return (
        Route("GET", "/deliveries", list_deliveries, "List stored webhook deliveries, newest first", listing,
              "DeliveryPage", query=DeliveriesQueryString),
        Route("POST", "/deliveries:replay", replay_delivery, "Replay a stored webhook delivery", replaying,
              "ReplayView", ReplayBody),
    )  # fmt: skip


async def _page(call: Call, sources: list[Source], asked: DeliveriesQueryString) -> tuple[list[Listed], str]:
    """Lists deliveries day by day until the page is full."""
    deliveries = Deliveries(call.parts.ports)
    now_ms = call.parts.ports.clock.now_ms()
    before = decode_cursor(asked.cursor) if asked.cursor else None
    since_ms = max(asked.since or 0, now_ms - max((_kept_ms(one) for one in sources), default=0))
    found: list[Listed] = []
    last_ms = min(before[0], now_ms) if before else now_ms  # a cursor of another list may be of any year
    for day_ms in days(last_ms, since_ms) if sources else ():
        for one in await deliveries.of_day([source.name for source in sources], day_ms):
            if one.came.at_ms < since_ms or (before and one.place >= before):
                continue
            if len(found) == asked.limit:
                return found, encode_cursor(*found[-1].place)
            found.append(one)
    return found, ""


def _kept_ms(source: Source) -> int:
    """Returns the earliest time with deliveries. A source that no longer stores them may have old ones."""
    return source.keep_ms or DELIVERY_KEPT_MAX_MS


async def _replay(call: Call, source: Source, asked: ReplayBody) -> Answer:
    deliveries = Deliveries(call.parts.ports)
    delivery = await deliveries.find(source.name, asked.delivery, _kept_ms(source))
    if delivery is None:
        raise NotFound(f"{source.name} has no delivery {asked.delivery}", code="unknown_delivery",
                       hint=f"stepwell webhook deliveries {source.name}")  # fmt: skip
    replays = await deliveries.replays(delivery)
    _check(delivery, replays, again=asked.again)
    came = Call(call.parts, {"source": source.name}, delivery.query, delivery.headers, delivery.body)
    meaning = meaning_of(source, came, body_of(source.signings[0], came))
    if meaning is None:
        return Answer(202, {"ignored": True})
    number, taken = await _publish(call, source, delivery, meaning, replays + 1, again=asked.again)
    note = replace(delivery, outcome=taken.outcome, made=taken.id, detail=taken.detail, replay=number,
                   body=b"", headers={}, query="")  # fmt: skip
    await deliveries.note(note)
    return Answer(202, {name_of(taken.outcome): taken.id, "replay": number})


def _check(delivery: Delivery, replays: int, *, again: bool) -> None:
    hint = "to process it once more: --again, or `again` in the body"
    if replays >= REPLAYS:
        raise Conflict(f"the delivery was replayed {replays} times", code="too_many_replays")
    if delivery.outcome.done and not again:
        raise Conflict(f"the delivery was {delivery.outcome.value} as {delivery.made}", code="already_taken", hint=hint)
    if replays and not again:
        raise Conflict("the delivery was replayed before", code="already_replayed", hint=hint)


def _replay_id(source: Source, delivery: Delivery, number: int) -> str:
    """Returns the id of a replay: with a hash of the delivery's if it would be too long for an event's id."""
    whole = f"{delivery.id}~replay-{number}"
    if source.workflow or len(f"{source.name}:{whole}") <= KEY_CHARACTERS:
        return whole
    return f"sha256:{hashlib.sha256(delivery.id.encode(errors='surrogatepass')).hexdigest()}~replay-{number}"


async def _publish(
    call: Call, source: Source, delivery: Delivery, meaning: Meaning, number: int, *, again: bool
) -> tuple[int, Taken]:
    """Replays; returns number and outcome. A caller who asks for one more gets a separate number."""
    while True:
        try:
            taken = await take(call.parts.service, source, meaning, _replay_id(source, delivery, number))
        except InvalidInput as error:
            raise as_unmappable(error) from error
        if taken.is_new or not again:
            return number, taken
        number += 1

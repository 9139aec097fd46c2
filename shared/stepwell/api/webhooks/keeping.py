"""Stores deliveries of sources with `keep`, without secrets and headers that gateways add."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from urllib.parse import urlencode

from stepwell.api.exchange import Call
from stepwell.api.webhooks.claims import form_fields
from stepwell.api.webhooks.sources import Source, body_of, delivery_id
from stepwell.api.webhooks.taking import Taken
from stepwell.definition.webhook_schemes import Signing
from stepwell.engine.records import Topic
from stepwell.errors import Conflict, UserError
from stepwell.runtime.notify.deliveries import Deliveries, Delivery, Outcome, day_topic
from stepwell.runtime.starts.admission import check_event_key

log = logging.getLogger("stepwell.webhooks")

_SECRET = re.compile(r"auth|cookie|credential|hmac|key|password|passwd|secret|session|sig|token")
_OF_THE_WAY = re.compile(
    r"accept.*|cdn-.*|cf-.*|connection|content-length|expect|forwarded|host|transfer-encoding|via"
    r"|x-amz.*|x-forwarded-.*|x-real-ip"
)
_DETAIL_CHARACTERS = 500


class Keeper:
    """Stores deliveries. When a day is full, further ones are accepted without storing, which is logged once."""

    def __init__(self) -> None:
        self._full: dict[str, Topic] = {}  # full topics by source, which saves counting in the store

    async def keep(self, source: Source, signing: Signing, call: Call, taken: Taken) -> None:
        """Stores a delivery, if its source has `keep`."""
        ports = call.parts.ports
        now_ms = ports.clock.now_ms()
        topic = day_topic(source.name, now_ms)
        if not source.keep_ms or self._full.get(source.name) == topic:
            return
        delivery = Delivery(
            source=source.name,
            id=_id_of(source, signing, call),
            at_ms=now_ms,
            outcome=taken.outcome,
            expires_ms=now_ms + source.keep_ms,
            made=taken.id,
            detail=taken.detail[:_DETAIL_CHARACTERS],
            query=kept_query(call.query),
            headers=kept_headers(call.headers, signing),
            body=call.raw_body,
            size_bytes=len(call.raw_body),
        )
        try:
            await Deliveries(ports).keep(delivery)
        except Conflict as error:
            self._full[source.name] = topic
            log.warning("webhook %s: what it brings today is no longer kept: %s", source.name, error)


def refused(error: UserError) -> Taken:
    """Returns the outcome to store for a delivery that could not be mapped."""
    return Taken(Outcome.REFUSED, detail=f"{error.code}: {error.message}")


def _id_of(source: Source, signing: Signing, call: Call) -> str:
    """Returns the delivery's id, or its body's hash."""
    try:
        found = delivery_id(source, signing, call, body_of(signing, call))
        check_event_key(found)
    except UserError:
        return f"sha256:{hashlib.sha256(call.raw_body).hexdigest()}"
    return found


def kept_headers(headers: Mapping[str, str], signing: Signing) -> Mapping[str, str]:
    """Selects the headers to store; the delivery's id is one of them, whatever its name."""
    return {
        name: value
        for name, value in headers.items()
        if name == signing.id_header
        or not (name == signing.header or _SECRET.search(name) or _OF_THE_WAY.fullmatch(name))
    }


def kept_query(query: str) -> str:
    try:
        fields = form_fields(query)
    except ValueError:  # expressions cannot read it either
        return ""
    return urlencode([(name, value) for name, value in fields if not _SECRET.search(name.lower())])

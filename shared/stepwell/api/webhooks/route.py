"""The route of webhooks: checks the sender, maps the delivery, and queues it without slow work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from urllib.parse import quote

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.parsing import too_large
from stepwell.api.problems import problem
from stepwell.api.webhooks.claims import BadSignature
from stepwell.api.webhooks.keeping import Keeper, refused
from stepwell.api.webhooks.signatures import verify
from stepwell.api.webhooks.sources import Source, as_unmappable, body_of, delivery_id, meaning_of, source_named
from stepwell.api.webhooks.taking import Taken, name_of, take
from stepwell.definition.graph import Json
from stepwell.definition.webhook_schemes import ID_HEADERS, MARK_HEADERS, Proof, Signing
from stepwell.errors import Conflict, InvalidInput, NotFound, UserError
from stepwell.limits import BODY_BYTES

log = logging.getLogger("stepwell.webhooks")


def webhook_routes(sources: Callable[[], Mapping[str, Source]]) -> tuple[Route, ...]:
    """Builds the route; `sources` is called for each delivery, because the sources may change."""
    keeper = Keeper()

    async def take_webhook(call: Call) -> Answer:
        return await _take(source_named(sources(), call.path["source"]), call, keeper)

    return (
        Route(
            "POST",
            "/webhooks/{source}",
            take_webhook,
            "Accept a webhook of another system",
            {
                200: "accepted, in the form that the sender expects",
                202: "accepted, now or before (`duplicate`), or `match` is false (`ignored`)",
                400: "it cannot be mapped",
                401: "its signature is missing, wrong or too old",
                404: "no such source",
                413: "the body is too large",
            },
            shape="TakenView",
            media="text/xml",  # to twilio
        ),
    )


async def _take(source: Source, call: Call, keeper: Keeper) -> Answer:
    if len(call.raw_body) > BODY_BYTES:
        raise too_large()
    now_ms = call.parts.ports.clock.now_ms()
    try:
        signing = verify(call, source.signings, source.references, source.secrets, now_ms, source.url)
    except BadSignature as refusal:
        log.info("webhook %s refused: %s", source.name, refusal)
        return _refused(source, refusal)
    try:
        body = body_of(signing, call)
        if signing.challenge and isinstance(body, dict) and body.get("type") == signing.challenge:
            return Answer(200, {"challenge": body.get("challenge")})
        taken = await _taken(source, signing, call, body)
    except (Conflict, NotFound):  # not the delivery's fault: a retry may succeed
        raise
    except UserError as error:
        await keeper.keep(source, signing, call, refused(error))
        if isinstance(error, InvalidInput):
            raise as_unmappable(error) from error
        raise
    await keeper.keep(source, signing, call, taken)
    return _answer(signing, taken)


async def _taken(source: Source, signing: Signing, call: Call, body: Json) -> Taken:
    meaning = meaning_of(source, call, body)
    own_id = delivery_id(source, signing, call, body) if meaning else ""
    return await take(call.parts.service, source, meaning, own_id)


def _answer(signing: Signing, taken: Taken) -> Answer:
    made = {name_of(taken.outcome): taken.id} if taken.outcome.done else {}
    if signing.answer is None:
        return Answer(202, {**made, **dict.fromkeys(taken.marks, True)})
    content_type, body = signing.answer
    headers = {ID_HEADERS[what]: quote(text, safe=":") for what, text in made.items()}
    return Answer(200, body, content_type, {**headers, **{MARK_HEADERS[mark]: "true" for mark in taken.marks}})


def _refused(source: Source, refusal: BadSignature) -> Answer:
    asks = any(signing.proof is Proof.PASSWORD for signing in source.signings)
    headers = {"WWW-Authenticate": f'Basic realm="{source.name}"'} if asks else {}
    return problem(401, "bad_signature", str(refusal), headers=headers, hint=refusal.hint)

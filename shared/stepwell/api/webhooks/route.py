"""The route of webhooks: who sent it, what it means, and off it goes; nothing is done here that takes time."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.problems import problem
from stepwell.api.requests import too_large
from stepwell.api.webhooks.claims import BadSignature
from stepwell.api.webhooks.signatures import verify
from stepwell.api.webhooks.sources import Meaning, Source, as_unmappable, body_of, meaning_of
from stepwell.definition.webhook_schemes import ID_HEADERS, Proof, Signing
from stepwell.errors import Conflict, InvalidInput, NotFound
from stepwell.limits import BODY_BYTES
from stepwell.runtime.service import Service, Start

log = logging.getLogger("stepwell.webhooks")


def webhook_routes(sources: Callable[[], Mapping[str, Source]]) -> tuple[Route, ...]:
    """`sources` is asked at each delivery: they may change while the routes are served."""

    async def take_webhook(call: Call) -> Answer:
        source = sources().get(call.path["source"])
        if source is None:
            raise NotFound("there is no such source of webhooks", code="unknown_source",
                           hint="webhooks.yaml says which there are")  # fmt: skip
        return await _take(source, call)

    return (
        Route(
            "POST",
            "/webhooks/{source}",
            take_webhook,
            "Take a webhook of another system",
            {
                200: "the same, in the words that the sender wants to hear",
                202: "it is on its way, or was already",
                400: "it means nothing here",
                401: "its signature is missing, wrong or too old",
                404: "no such source",
                413: "the body is too large",
            },
            shape="TakenView",
        ),
    )


async def _take(source: Source, call: Call) -> Answer:
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
        meaning = meaning_of(source, signing, call, body)
        if source.workflow:
            return _taken(signing, "run_id", await _start(call.parts.service, source.workflow, meaning))
        sent = await call.parts.service.send_event(meaning.event, meaning.content, key=meaning.key, event_id=meaning.id)
        return _taken(signing, "event_id", sent)
    except InvalidInput as error:
        raise as_unmappable(error) from error


def _taken(signing: Signing, what: str, made: str) -> Answer:
    if signing.answer is None:
        return Answer(202, {what: made})
    content_type, body = signing.answer
    return Answer(200, body, content_type, {ID_HEADERS[what]: quote(made, safe=":")})


def _refused(source: Source, refusal: BadSignature) -> Answer:
    asks = any(signing.proof is Proof.PASSWORD for signing in source.signings)
    headers = {"WWW-Authenticate": f'Basic realm="{source.name}"'} if asks else {}
    return problem(401, "bad_signature", str(refusal), headers=headers)


async def _start(service: Service, workflow: str, meaning: Meaning) -> str:
    """The delivery's run: the same one for each retry, even where its input would be another now."""
    run_id = f"run_{hashlib.sha256(meaning.id.encode()).hexdigest()[:26]}"
    request = Start(workflow, meaning.content, run_id)
    try:
        await service.start(request)
    except Conflict:
        first = await service.header(run_id)  # its start is asked for again: it may not have been set going
        await service.start(replace(request, workflow=first.workflow, input=first.input))
    return run_id

"""The route of webhooks: who sent it, what it means, and off it goes; nothing is done here that takes time."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.problems import problem
from stepwell.api.requests import too_large
from stepwell.api.webhooks.signatures import BadSignature, verify
from stepwell.api.webhooks.sources import Meaning, Source, as_unmappable, meaning_of
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
    try:
        signing = verify(call, source.signings, source.references, source.secrets, call.parts.ports.clock.now_ms())
    except BadSignature as refusal:
        log.info("webhook %s refused: %s", source.name, refusal)
        return problem(401, "bad_signature", str(refusal))
    try:
        meaning = meaning_of(source, signing, call)
        if source.workflow:
            return Answer(202, {"run_id": await _start(call.parts.service, source.workflow, meaning)})
        sent = await call.parts.service.send_event(meaning.event, meaning.content, key=meaning.key, event_id=meaning.id)
        return Answer(202, {"event_id": sent})
    except InvalidInput as error:
        raise as_unmappable(error) from error


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

"""Signs a webhook as its sender would, to test a source."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import field

from stepwell.api.webhooks.claims import BODY_HASH, FORM, addressed, called
from stepwell.api.webhooks.signatures import key_of, signature
from stepwell.api.webhooks.sources import Source
from stepwell.definition.webhook_schemes import Proof, Signing
from stepwell.errors import PortError
from stepwell.limits import SECOND_MS
from stepwell.runtime.steps.secrets import MISSING
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Signed:
    """A delivery to send by POST. Header names are in lower case; `headers` have the proof."""

    content: bytes
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def sign(source: Source, content: bytes, content_type: str, *, host: str, delivery_id: str, now_ms: int) -> Signed:
    """Signs as the source's sender would. `host` is the called host, if the source has no `url`.

    Raises PortError if no secret of the source can be read here.
    """
    signing = source.signings[0]
    if signing.proof is Proof.NOTHING:
        return Signed(content)
    key = _first_key(source, signing)
    if signing.proof is Proof.PASSWORD:
        return Signed(content, headers={signing.header: f"Basic {base64.b64encode(key).decode()}"})
    form = content_type.partition(";")[0] == FORM
    hashed = signing.proof is Proof.ADDRESS and content and not form
    query = f"{BODY_HASH}={hashlib.sha256(content).hexdigest()}" if hashed else ""
    time = str(now_ms // SECOND_MS)
    if signing.proof is Proof.ADDRESS:
        text = addressed(source.url or called(host, source.name), query, content, form=form)
    else:
        text = signing.before.format(time=time, id=delivery_id).encode() + content
    shown = signing.prefix + signature(signing, key, text).decode()
    return Signed(content, query, _headers(signing, shown, time, delivery_id))


def _headers(signing: Signing, shown: str, time: str, delivery_id: str) -> dict[str, str]:
    if signing.time_field:
        shown = f"{signing.time_field}={time},{shown}"
    headers = {f"{signing.header}1" if signing.numbered else signing.header: shown}
    if signing.time_header:
        headers[signing.time_header] = time
    if signing.id_header:
        headers[signing.id_header] = delivery_id
    return headers


def _first_key(source: Source, signing: Signing) -> bytes:
    for reference in source.references:
        try:
            return key_of(source.secrets.get(reference), reference, signing)
        except PortError as error:
            if error.code != MISSING:
                raise
    raise PortError(f"no secret of {source.name} can be read here: {', '.join(source.references)}", code=MISSING,
                    hint="list one as env:NAME, and set NAME to the server's value")  # fmt: skip

"""Checks the signature of a delivery on its raw body. Whoever passes knows one of the source's secrets."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.api.exchange import Call
from stepwell.api.webhooks.secrets import MISSING, Secrets
from stepwell.definition.webhook_schemes import Signing
from stepwell.errors import PortError
from stepwell.limits import SECOND_MS

log = logging.getLogger("stepwell.webhooks")

WINDOW_MS = 300 * SECOND_MS  # how far the sender's clock and ours may differ, either way
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


class BadSignature(Exception):
    """Nothing proves that the delivery is the sender's; the message says what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a delivery shows for itself."""

    signing: Signing
    signed: bytes
    signatures: tuple[bytes, ...]


def verify(
    call: Call, signings: Sequence[Signing], references: Sequence[str], secrets: Secrets, now_ms: int
) -> Signing:
    """How the delivery was signed.

    Raises BadSignature; PortError when a secret that may be the right one cannot be had now, or none is there at all.
    """
    claim = _claim(call, signings, now_ms)
    failures: list[PortError] = []
    for reference in references:
        try:
            key = _key(secrets.get(reference), reference, claim.signing)
        except PortError as error:
            log.log(logging.INFO if error.code == MISSING else logging.WARNING, "a webhook's secret: %s", error)
            failures.append(error)
            continue
        if _matches(claim, key):
            return claim.signing
    decisive = [one for one in failures if one.code != MISSING]
    if decisive or len(failures) == len(references):
        raise (decisive or failures)[0]
    raise BadSignature("the signature is not that of any secret of this source")


def header_of(call: Call, name: str) -> str:
    """The header's value. Raises BadSignature for one that is missing or came more than once."""
    value = call.headers.get(name, "").strip()
    if not value:
        raise BadSignature(f"the header {name} is missing")
    if "," in value:  # how a gateway joins what came more than once: nobody knows which of them counts
        raise BadSignature(f"the header {name} came more than once")
    return value


def _claim(call: Call, signings: Sequence[Signing], now_ms: int) -> _Claim:
    signing = next((one for one in signings if one.header in call.headers), None)
    if signing is None:
        raise BadSignature(f"the header {signings[0].header} is missing")
    values = {}
    if signing.time_header:
        values["time"] = _checked_time(header_of(call, signing.time_header), now_ms)
    if "{id}" in signing.before:
        values["id"] = header_of(call, signing.id_header)
    before = signing.before.format(**values).encode(errors="surrogatepass")
    return _Claim(signing, before + call.raw_body, _shown(call.headers[signing.header], signing))


def _checked_time(text: str, now_ms: int) -> str:
    if not _SECONDS.fullmatch(text):
        raise BadSignature("the timestamp is not a number of seconds")
    if abs(int(text) * SECOND_MS - now_ms) > WINDOW_MS:
        raise BadSignature(f"the timestamp is more than {WINDOW_MS // SECOND_MS} seconds from now")
    return text


def _shown(value: str, signing: Signing) -> tuple[bytes, ...]:
    found = [part.removeprefix(signing.prefix) for part in value.split() if part.startswith(signing.prefix)]
    if any("," in one for one in found):
        raise BadSignature(f"the header {signing.header} came more than once")
    if not found:
        raise BadSignature(f"the header {signing.header} has no signature that begins with {signing.prefix!r}")
    return tuple(one.encode(errors="surrogatepass") for one in found)


def _key(secret: str, reference: str, signing: Signing) -> bytes:
    """The secret as the key. Raises PortError for one that can be none: with an empty key, anybody could sign."""
    if signing.key == "base64":
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            raise PortError(f"{reference} is not `whsec_` and base64", code="secret_unavailable") from None
    else:
        key = secret.encode(errors="surrogatepass")
    if not key:
        raise PortError(f"{reference} is empty", code="secret_unavailable")
    return key


def _matches(claim: _Claim, key: bytes) -> bool:
    digest = hmac.digest(key, claim.signed, claim.signing.digest)
    right = base64.b64encode(digest) if claim.signing.encoding == "base64" else digest.hex().encode()
    return any(hmac.compare_digest(right, shown) for shown in claim.signatures)  # each in constant time

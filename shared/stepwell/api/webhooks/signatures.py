"""Checks who sent a delivery, on its raw body. Whoever passes knows one of the source's secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Sequence

from stepwell.api.exchange import Call
from stepwell.api.webhooks.claims import BadSignature, Claim, claim_of, headers_of
from stepwell.definition.webhook_schemes import Proof, Signing
from stepwell.errors import PortError
from stepwell.runtime.steps.secrets import MISSING, Secrets, base64_key

log = logging.getLogger("stepwell.webhooks")


def verify(
    call: Call, signings: Sequence[Signing], references: Sequence[str], secrets: Secrets, now_ms: int, url: str = ""
) -> Signing:
    """How the delivery was signed.

    Raises BadSignature; PortError when a secret that may be the right one cannot be had now, or none is there at all.
    """
    claim = claim_of(call, _signing_of(call, signings), url, now_ms)
    if claim.signing.proof is Proof.NOTHING:
        return claim.signing
    failures: list[PortError] = []
    for reference in references:
        try:
            key = key_of(secrets.get(reference), reference, claim.signing)
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


def key_of(secret: str, reference: str, signing: Signing) -> bytes:
    """The secret as the key. Raises PortError for one that can be none: with an empty key, anybody could sign."""
    if signing.key == "base64":
        return base64_key(secret, reference)
    key = secret.encode(errors="surrogatepass")
    if not key:
        raise PortError(f"{reference} is empty", code="secret_unavailable")
    if signing.proof is Proof.PASSWORD and b":" not in key:
        raise PortError(f"{reference} is not a name, a colon and a password", code="secret_unavailable")
    return key


def signature(signing: Signing, key: bytes, text: bytes) -> bytes:
    """As a header has it, without its prefix."""
    digest = hmac.digest(key, text, signing.digest)
    return base64.b64encode(digest) if signing.encoding == "base64" else digest.hex().encode()


def _signing_of(call: Call, signings: Sequence[Signing]) -> Signing:
    for one in signings:
        if one.proof is Proof.NOTHING or headers_of(call, one):
            return one
    raise BadSignature(f"the header {signings[0].header}{'1' if signings[0].numbered else ''} is missing")


def _matches(claim: Claim, key: bytes) -> bool:
    """Each comparison in constant time."""
    if claim.signing.proof is Proof.PASSWORD:  # hashed, so that its length is not told either
        right = hashlib.sha256(key).digest()
        return any(hmac.compare_digest(right, hashlib.sha256(shown).digest()) for shown in claim.signatures)
    return any(
        hmac.compare_digest(right, shown)
        for right in (signature(claim.signing, key, text) for text in claim.texts)
        for shown in claim.signatures
    )

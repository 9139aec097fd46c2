"""Checks the signature of a delivery on its raw body, against the source's secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Sequence

from stepwell.api.exchange import Call
from stepwell.api.webhooks.claims import BadSignature, Claim, claim_of, headers_of, missing
from stepwell.definition.webhook_schemes import Proof, Signing
from stepwell.errors import PortError
from stepwell.runtime.steps.secrets import MISSING, Secrets, base64_key

log = logging.getLogger("stepwell.webhooks")


def verify(
    call: Call, signings: Sequence[Signing], references: Sequence[str], secrets: Secrets, now_ms: int, url: str = ""
) -> Signing:
    """Checks a delivery and returns how it was signed.

    Raises BadSignature; PortError if a secret that may match is unavailable, or if there is no secret.
    """
    claim = claim_of(call, _signing_of(call, signings), url, now_ms)
    if claim.signing.proof is Proof.NOTHING:
        return claim.signing
    failures: list[PortError] = []
    for reference in references:
        try:
            key = key_of(secrets.get(reference), reference, claim.signing)
        except PortError as error:
            log.log(logging.DEBUG if error.code == MISSING else logging.WARNING, "a webhook's secret: %s", error)
            failures.append(error)
            continue
        if _matches(claim, key):
            return claim.signing
    decisive = [one for one in failures if one.code != MISSING]
    if decisive or len(failures) == len(references):
        raise (decisive or failures)[0]
    raise BadSignature("the signature matches no secret of this source")


def key_of(secret: str, reference: str, signing: Signing) -> bytes:
    """Decodes the secret to a key. Raises PortError for an empty key, with which anybody could sign."""
    if signing.key == "base64":
        return base64_key(secret, reference)
    key = secret.encode(errors="surrogatepass")
    if not key:
        raise PortError(f"{reference} is empty", code="secret_unavailable")
    if signing.proof is Proof.PASSWORD and b":" not in key:
        raise PortError(f"{reference} is not of the form name:password", code="secret_unavailable")
    return key


def signature(signing: Signing, key: bytes, text: bytes) -> bytes:
    """Encodes a signature as in a header, without its prefix."""
    digest = hmac.digest(key, text, signing.digest)
    return base64.b64encode(digest) if signing.encoding == "base64" else digest.hex().encode()


def _signing_of(call: Call, signings: Sequence[Signing]) -> Signing:
    for one in signings:
        if one.proof is Proof.NOTHING or headers_of(call, one):
            return one
    raise missing(f"{signings[0].header}{'1' if signings[0].numbered else ''}")


def _matches(claim: Claim, key: bytes) -> bool:
    """Compares signatures in constant time."""
    if claim.signing.proof is Proof.PASSWORD:  # hashed, so that not even its length leaks
        right = hashlib.sha256(key).digest()
        return any(hmac.compare_digest(right, hashlib.sha256(shown).digest()) for shown in claim.signatures)
    is_hex = claim.signing.encoding != "base64"  # in either case
    return any(
        hmac.compare_digest(right, shown.lower() if is_hex else shown)
        for right in (signature(claim.signing, key, text) for text in claim.texts)
        for shown in claim.signatures
    )

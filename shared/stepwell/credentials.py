"""What the header of a signed call (SigV4) says of its credential. The signature is not checked here."""

from __future__ import annotations

import re
from dataclasses import field

from stepwell.values import dataclass

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=(.{1,512}?)/\d{8}/([a-z0-9-]{1,40})/[a-z0-9-]+/aws4_request,")


@dataclass(frozen=True, slots=True)
class Credential:
    """The access key's id, which may be an API key, and the region that the call was signed for."""

    key_id: str = field(repr=False)
    region: str


def credential_of(authorization: str) -> Credential | None:
    """Returns the credential of a header `Authorization`; None if it has none."""
    found = _CREDENTIAL.match(authorization)
    return Credential(found[1], found[2]) if found else None

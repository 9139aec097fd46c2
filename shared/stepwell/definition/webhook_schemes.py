"""How the senders of webhooks sign: a row for each way. What a row means is in `stepwell.api.webhooks.signatures`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepwell.definition.graph import Json


@dataclass(frozen=True, slots=True)
class Signing:
    """One way to sign with an HMAC over a text before the body, and the body. Header names are in lower case."""

    header: str  # holds the signature, or several with spaces between them
    digest: str = "sha256"
    encoding: str = "hex"  # of a signature: hex or base64
    prefix: str = ""  # of each signature; one that begins otherwise is of a kind that is not looked at
    before: str = ""  # what is signed ahead of the body: text with {id} and {time}
    time_header: str = ""  # seconds since 1970: with it, a delivery that is too old or too new is refused
    id_header: str = ""  # the delivery's id: the same in every retry
    key: str = "text"  # how the secret is the key: text (as it is), or base64 after `whsec_`


def _standard(family: str) -> Signing:
    return Signing(
        header=f"{family}-signature",
        encoding="base64",
        prefix="v1,",
        before="{id}.{time}.",
        time_header=f"{family}-timestamp",
        id_header=f"{family}-id",
        key="base64",
    )


# The first row whose header a delivery has is the one that counts.
SCHEMES: Mapping[str, tuple[Signing, ...]] = {
    "standard-webhooks": (_standard("webhook"), _standard("svix")),
    "github": (Signing("x-hub-signature-256", prefix="sha256=", id_header="x-github-delivery"),),
}
HMAC = "hmac"  # the scheme whose row is in the user's file, under these keys; None: any text
HMAC_KEYS: Mapping[str, tuple[str, ...] | None] = {
    "header": None,
    "digest": ("sha1", "sha256", "sha384", "sha512"),
    "encoding": ("hex", "base64"),
    "prefix": None,
}
SCHEME_NAMES = (*SCHEMES, HMAC)


def signings_of(source: Mapping[str, Json]) -> tuple[Signing, ...]:
    """The rows of a source that was checked."""
    if source["scheme"] != HMAC:
        return SCHEMES[source["scheme"]]
    given = {key: source[key] for key in HMAC_KEYS if key in source}
    return (Signing(**{**given, "header": given["header"].lower()}),)

"""The signature schemes of webhook senders, as a table. `stepwell.api.webhooks` applies the rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from stepwell.definition.graph import Json
from stepwell.values import dataclass


class Proof(StrEnum):
    """How a delivery proves its sender."""

    BODY = "body"  # an HMAC over a text, and the body after it
    ADDRESS = "address"  # an HMAC over the called URL, followed by the fields of a form
    PASSWORD = "password"  # noqa: S105 - the name of a kind: the secret itself is in a header
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Signing:
    """One way to sign. Header names are in lower case."""

    header: str  # contains the signature, or several separated by spaces
    proof: Proof = Proof.BODY
    digest: str = "sha256"
    encoding: str = "hex"  # of a signature: hex or base64
    prefix: str = ""  # of each signature; signatures with another prefix are ignored
    numbered: bool = False  # numbers follow the name in `header`, with a signature in each
    before: str = ""  # the signed text before the body, with {id} and {time}
    time_header: str = ""  # seconds since 1970; a delivery that is too old or too new is refused
    time_field: str = ""  # instead: `header` is name=value,name=value, and this name has the time
    settings_header: str = ""  # selects another digest by `algorithm=HMAC_…`
    id_header: str = ""  # the delivery's id, the same in every retry
    id_optional: bool = False  # without the id, a delivery has the hash of its body
    id_field: str = ""  # the body's field with the id, if there is no header
    counter: str = ""  # a field of the body that changes in each retry and is not part of its content
    json_field: str = ""  # the field of a form that holds the body as JSON
    challenge: str = ""  # the `type` of a body whose `challenge` must be answered
    answer: tuple[str, str] | None = None  # content type and body; None: 202 with the delivery's result
    key: str = "text"  # the encoding of the key in the secret: plain text, or base64 after `whsec_`


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


def _shopify(family: str) -> Signing:
    return Signing(f"{family}-hmac-sha256", encoding="base64", id_header=f"{family}-webhook-id")


_SLACK = Signing(
    "x-slack-signature",
    prefix="v0=",
    before="v0:{time}:",
    time_header="x-slack-request-timestamp",
    id_field="event_id",
    json_field="payload",
    challenge="url_verification",
    answer=("text/plain", ""),  # Slack shows the answer of a command or a dialog to the person
)
_TWILIO = Signing(
    "x-twilio-signature",
    proof=Proof.ADDRESS,
    digest="sha1",
    encoding="base64",
    settings_header="x-twilio-webhooks-signature-settings",
    id_header="i-twilio-idempotency-token",
    id_optional=True,
    answer=("text/xml", '<?xml version="1.0" encoding="UTF-8"?><Response/>'),  # JSON is an error there
)
# The first row whose header a delivery has counts.
SCHEMES: Mapping[str, tuple[Signing, ...]] = {
    "standard-webhooks": (_standard("webhook"), _standard("svix")),
    "stripe": (Signing("stripe-signature", prefix="v1=", before="{time}.", time_field="t", id_field="id"),),
    "github": (Signing("x-hub-signature-256", prefix="sha256=", id_header="x-github-delivery", json_field="payload"),),
    "slack": (_SLACK,),
    "shopify": (_shopify("x-shopify"), _shopify("shopify")),
    "twilio": (_TWILIO,),
    "docusign": (Signing("x-docusign-signature-", encoding="base64", numbered=True, counter="retryCount"),),
    "basic": (Signing("authorization", proof=Proof.PASSWORD),),
    "none": (Signing("", proof=Proof.NOTHING),),
}
HMAC = "hmac"  # the scheme that the user's file defines with these keys; None: any text
HMAC_KEYS: Mapping[str, tuple[str, ...] | None] = {
    "header": None,
    "digest": ("sha1", "sha256", "sha384", "sha512"),
    "encoding": ("hex", "base64"),
    "prefix": None,
}
NONE = "none"  # the scheme, and the value that its `secret` must have too
# If the sender dictates the body of the answer, a header has the delivery's result.
ID_HEADERS = {"event_id": "Stepwell-Event-Id", "run_id": "Stepwell-Run-Id"}
MARK_HEADERS = {"duplicate": "Stepwell-Duplicate", "ignored": "Stepwell-Ignored"}  # present, as `true`, if it applies
URL_SCHEMES = frozenset({"twilio"})  # the schemes that sign the URL, which `url` gives
SCHEME_NAMES = (*(name for name in SCHEMES if name not in {"basic", NONE}), HMAC, "basic", NONE)


def signings_of(source: Mapping[str, Json]) -> tuple[Signing, ...]:
    """Returns the rows of a checked source."""
    if source["scheme"] != HMAC:
        return SCHEMES[source["scheme"]]
    given = {key: source[key] for key in HMAC_KEYS if key in source}
    return (Signing(**{**given, "header": given["header"].lower()}),)

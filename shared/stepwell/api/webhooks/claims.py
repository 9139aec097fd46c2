"""Extracts the proof of a delivery: the texts that may have been signed, and the signatures."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qsl

from stepwell.api.exchange import Call
from stepwell.definition.webhook_schemes import Proof, Signing
from stepwell.limits import SECOND_MS
from stepwell.values import dataclass

WINDOW_MS = 300 * SECOND_MS  # the most that the sender's clock may differ, in either direction
FORM = "application/x-www-form-urlencoded"
FORM_FIELDS = 1_000
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
BODY_HASH = "bodySHA256"
_DIGESTS = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}


SIGN = "sign the raw body with the secret that webhooks.yaml names for this source"
_SEND = "send it with each delivery: the scheme that webhooks.yaml names for this source has it"
_IN_TIME = "write the time of the sending, in seconds since 1970, and check the sender's clock"
_NAMED = "send `Basic` and the base64 of name:password, as the secret of this source has them"


def missing(header: str) -> BadSignature:
    return BadSignature(f"the header {header} is missing", _SEND)


class BadSignature(Exception):
    """The delivery does not prove its sender; the message names the reason, and `hint` what the sender is to do."""

    def __init__(self, message: str, hint: str = SIGN) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Claim:
    """A proof to check: one of the texts, signed with the secret, must be one of the signatures.

    For a password there are no texts, and `signatures` has the password.
    """

    signing: Signing
    texts: tuple[bytes, ...] = ()
    signatures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shown:
    signatures: tuple[str, ...]  # with their prefixes
    time: str = ""


def claim_of(call: Call, signing: Signing, url: str, now_ms: int) -> Claim:
    """Extracts the proof. `url` is the source's URL without a query; empty: the called URL. Raises BadSignature."""
    if signing.proof is Proof.NOTHING:
        return Claim(signing)
    if signing.proof is Proof.PASSWORD:
        return Claim(signing, signatures=(_credentials(header_of(call, signing.header)),))
    shown = _shown(call, signing)
    signing = _with_its_digest(call, signing)
    if signing.proof is Proof.ADDRESS:
        place = url or called(header_of(call, "host"), call.path["source"])
        texts = tuple(
            addressed(one, call.query, call.raw_body, form=is_form(call)) for one in _with_and_without_port(place)
        )
    else:
        texts = (_before(call, signing, shown.time, now_ms) + call.raw_body,)
    signatures = tuple(one.encode(errors="surrogatepass") for one in _of_the_right_kind(shown.signatures, signing))
    return Claim(signing, texts, signatures)


def headers_of(call: Call, signing: Signing) -> list[str]:
    """Returns the names of the headers with this kind of proof."""
    if not signing.numbered:
        return [signing.header] if signing.header in call.headers else []
    return [
        name
        for name in call.headers
        if name.startswith(signing.header) and name.removeprefix(signing.header).isdecimal()
    ]


def header_of(call: Call, name: str) -> str:
    """Returns the header's value. Raises BadSignature if it is missing or occurs twice."""
    value = call.headers.get(name, "").strip()
    if not value:
        raise missing(name)
    if "," in value:  # a gateway joins repeated headers this way; which one counts is unknown
        raise _more_than_once(name)
    return value


def is_form(call: Call) -> bool:
    return call.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def form_fields(text: str) -> list[tuple[str, str]]:
    """Parses a form or a query string in order. Raises ValueError."""
    return parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS, errors="strict")


def _shown(call: Call, signing: Signing) -> _Shown:
    if not signing.time_field:
        values = [call.headers[name] for name in headers_of(call, signing)]
        return _Shown(tuple(part for value in values for part in value.split()))
    parts = [part.strip() for part in call.headers[signing.header].split(",")]
    times = [part.partition("=")[2] for part in parts if part.startswith(f"{signing.time_field}=")]
    if len(times) > 1:
        raise _more_than_once(signing.header)
    if "" in parts:
        raise BadSignature(f"the header {signing.header} has an empty part")
    return _Shown(tuple(parts), times[0] if times else "")


def _of_the_right_kind(shown: tuple[str, ...], signing: Signing) -> Iterator[str]:
    found = [one.removeprefix(signing.prefix) for one in shown if one.startswith(signing.prefix)]
    if not found:
        kind = f" that begins with {signing.prefix!r}" if signing.prefix else ""
        raise BadSignature(f"the header {signing.header} has no signature{kind}")
    for one in found:
        if "," in one:
            raise _more_than_once(signing.header)
        if not one:
            raise BadSignature(f"the header {signing.header} has an empty signature")
        yield one


def _before(call: Call, signing: Signing, time: str, now_ms: int) -> bytes:
    """Returns the signed text before the body, after checking its time. `time` is beside the signature."""
    values = {}
    if signing.time_field:
        values["time"] = _checked_time(time, now_ms)
    elif signing.time_header:
        values["time"] = _checked_time(header_of(call, signing.time_header), now_ms)
    if "{id}" in signing.before:
        values["id"] = header_of(call, signing.id_header)
    return signing.before.format(**values).encode(errors="surrogatepass")


def _checked_time(text: str, now_ms: int) -> str:
    if not _SECONDS.fullmatch(text):
        raise BadSignature("the timestamp is not a number of seconds", _IN_TIME)
    if abs(int(text) * SECOND_MS - now_ms) > WINDOW_MS:
        raise BadSignature(f"the timestamp is more than {WINDOW_MS // SECOND_MS} seconds from now", _IN_TIME)
    return text


def _with_its_digest(call: Call, signing: Signing) -> Signing:
    """Returns the digest that the sender names, if the scheme allows it."""
    settings = call.headers.get(signing.settings_header, "") if signing.settings_header else ""
    parts = [part.strip() for part in settings.split(",")]
    named = [part.partition("=")[2].upper() for part in parts if part.startswith("algorithm=")]
    if not named:
        return signing
    if len(named) > 1 or named[0] not in _DIGESTS:
        raise BadSignature(f"the header {signing.settings_header} names no known algorithm")
    return replace(signing, digest=_DIGESTS[named[0]])


def addressed(url: str, query: str, raw: bytes, *, form: bool) -> bytes:
    """Returns the URL with its query, followed by the sorted form fields unless the query has the body's hash.

    Raises BadSignature for a body that this would not sign.
    """
    try:
        hashes = [value for name, value in form_fields(query) if name == BODY_HASH]
        fields = form_fields(raw.decode()) if form and not hashes else []
    except ValueError:  # also raised for the encoding
        raise BadSignature("the form or the query string is malformed") from None
    if raw and not form and not hashes:
        raise BadSignature(f"the body is not a form, and the query has no {BODY_HASH}")
    right = hashlib.sha256(raw).hexdigest().encode()
    if hashes and (len(hashes) > 1 or not hmac.compare_digest(hashes[0].encode(errors="surrogatepass"), right)):
        raise BadSignature(f"the body does not match {BODY_HASH}")
    text = (f"{url}?{query}" if query else url) + "".join(name + value for name, value in sorted(set(fields)))
    return text.encode(errors="surrogatepass")


def called(host: str, source: str) -> str:
    """Returns the URL of a source whose file does not give it."""
    return f"https://{host}/webhooks/{source}"


def _with_and_without_port(url: str) -> tuple[str, ...]:
    """Returns the variants of a URL, because senders differ in signing default and other ports."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    name, _, port = host.rpartition(":")
    other = name if name and port.isdecimal() else f"{host}:{443 if scheme == 'https' else 80}"
    return url, f"{scheme}://{other}{slash}{path}"


def _credentials(value: str) -> bytes:
    kind, _, text = value.partition(" ")
    if kind.lower() != "basic":
        raise BadSignature("the header authorization has no name and password", _NAMED)
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise BadSignature("the header authorization has no name and password", _NAMED) from None


def _more_than_once(header: str) -> BadSignature:
    return BadSignature(f"the header {header} occurs more than once", "send it once")

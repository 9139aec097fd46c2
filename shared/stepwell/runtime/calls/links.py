"""Signed links: each lets its holder do one thing, without any other credential.

    token = base64url(JSON of what it is for and until when) "." base64url(HMAC-SHA256 of that)

No link is stored: it is made on request, and what is kept of its use is not the token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from stepwell.definition.graph import Json
from stepwell.errors import Conflict, NotFound, PortError
from stepwell.limits import LINK_CHARACTERS, LINK_KEY_CHARACTERS
from stepwell.values import dataclass

Keys = Callable[[], Sequence[bytes]]  # the first one signs; all are good


@dataclass(frozen=True, slots=True)
class CallbackLink:
    """Ends one callback, once. `callback` is its id, as in the engine's topics."""

    callback: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class ApprovalLink:
    """Answers one wait for an approval, in the name of `approver`; "": its holder says who they are."""

    run_id: str
    token: str
    slot: int  # of the wait
    approver: str
    expires_ms: int
    approval: str = ""  # which of several is meant, where the approver is asked for more than one


@dataclass(frozen=True, slots=True)
class StreamLink:
    """Opens the live feed of a run, of a workflow's runs, or of all."""

    run_id: str
    workflow: str
    expires_ms: int


L = TypeVar("L", CallbackLink, ApprovalLink, StreamLink)


class Links:
    """Makes and reads links for one deployment. `base_url`: the public URL of its API."""

    def __init__(self, base_url: str, keys: Keys) -> None:
        self._base_url, self._keys = base_url.rstrip("/"), keys

    def callback_url(self, link: CallbackLink) -> str:
        """Returns the callback's URL. Raises PortError if the key is not available."""
        return f"{self._base_url}/callbacks/{self.callback_token(link)}"

    def callback_token(self, link: CallbackLink) -> str:
        """Returns the callback's token, the end of its URL. Raises PortError if the key is not available."""
        return self._signed("callback", [link.callback, link.expires_ms])

    def approval_url(self, link: ApprovalLink) -> str:
        """Returns the approval's URL. Raises PortError if the key is not available."""
        fields = [link.run_id, link.token, link.slot, link.approver, link.expires_ms]
        fields += [link.approval] if link.approval else []
        return f"{self._base_url}/approvals/{self._signed('approval', fields)}"

    def stream_token(self, link: StreamLink) -> str:
        """Returns the token that opens the feed. Raises PortError if the key is not available."""
        return self._signed("stream", [link.run_id, link.workflow, link.expires_ms])

    def callback(self, token: str, now_ms: int) -> CallbackLink:
        """Reads a callback's token. Raises NotFound if it was not made here, Conflict if it has expired."""
        link = CallbackLink(*self._read("callback", token))
        return _in_time(link, now_ms, "callback")

    def approval(self, token: str, now_ms: int) -> ApprovalLink:
        """Reads an approval's token. Raises NotFound if it was not made here, Conflict if it has expired."""
        link = ApprovalLink(*self._read("approval", token))
        return _in_time(link, now_ms, "approval")

    def stream(self, token: str, now_ms: int) -> StreamLink:
        """Reads a feed's token. Raises NotFound if it was not made here, Conflict if it has expired."""
        link = StreamLink(*self._read("stream", token))
        return _in_time(link, now_ms, "stream")

    def _signed(self, purpose: str, fields: Sequence[Json]) -> str:
        return sign(self._keys()[0], purpose, fields)

    def _read(self, purpose: str, token: str) -> Sequence[Json]:
        fields = fields_of(self._keys(), purpose, token)
        if fields is None:
            raise NotFound("there is nothing under this link", code="unknown_link")
        return fields


def sign(key: bytes, purpose: str, fields: Sequence[Json]) -> str:
    """Returns the signed token. It is valid for this purpose alone."""
    said = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    mac = hmac.digest(key, f"stepwell {purpose}\n".encode() + said, hashlib.sha256)
    return f"{_encode(said)}.{_encode(mac)}"


def fields_of(keys: Sequence[bytes], purpose: str, token: str) -> Sequence[Json] | None:
    """Returns the token's fields; None unless one of the keys made exactly this text."""
    if len(token) > LINK_CHARACTERS or not token.isascii():
        return None
    said = token.partition(".")[0]
    try:
        fields: Json = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
        good = [sign(key, purpose, fields) for key in keys]
    except (ValueError, RecursionError):  # also for bad base64 and encodings
        return None
    fits = [hmac.compare_digest(one.encode(), token.encode()) for one in good]  # all: the time taken tells nothing
    return fields if any(fits) and isinstance(fields, list) else None


def keys_in(secret: str) -> Sequence[bytes]:
    """Returns the keys of a secret: its whole text, or a JSON list of keys. Raises PortError for a weak key."""
    try:
        found = json.loads(secret)
    except ValueError:
        found = None
    texts = found if isinstance(found, list) else [secret]
    if not texts or not all(isinstance(text, str) and len(text) >= LINK_KEY_CHARACTERS for text in texts):
        raise PortError(f"a key that signs links is shorter than {LINK_KEY_CHARACTERS} characters", code="bad_link_key",
                        hint="the secret is one key, or a JSON list of keys of which the first signs")  # fmt: skip
    return [text.encode() for text in texts]


def _in_time(link: L, now_ms: int, purpose: str) -> L:
    if now_ms >= link.expires_ms:
        raise Conflict(f"the {purpose}'s time is over", code=f"{purpose}_expired")
    return link


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

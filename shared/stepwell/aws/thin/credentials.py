"""The credentials of the process: those of the environment, as Lambda gives them, else whatever botocore finds.

Those of the environment stay what they are for the life of a process. A function that started from a snapshot has an
address in their place, where they are asked for, and again before they expire. botocore renews all others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from stepwell.aws.failures import AwsError, NoAnswer
from stepwell.aws.thin.signer import Key
from stepwell.aws.thin.wire import Wire, place_of
from stepwell.settings import read_key_address

RENEWED_SECONDS = 300  # before they expire
_SECONDS = 2  # for an answer


def keys_of(
    given: Key | None, address: Callable[[], tuple[str, str]] = read_key_address, now: Callable[[], float] = time.time
) -> Callable[[], Key]:
    """Returns a function that tells the key to sign with. It raises AwsError if there is none.

    `address` tells where they are asked for, and the token to show there; it is read late, because a snapshot is older.
    """
    if given is not None:
        return lambda: given
    chain, asked = _FromChain(), _FromAddress(address, now)
    return lambda: asked() if address()[0] else chain()


class _FromAddress:
    """The key that an address gives, kept until it is about to expire, and beyond while there is no new one."""

    def __init__(self, address: Callable[[], tuple[str, str]], now: Callable[[], float]) -> None:
        self._address, self._now = address, now
        self._kept: tuple[Key, float] | None = None

    def __call__(self) -> Key:
        kept = self._kept
        if kept is None or self._now() >= kept[1] - RENEWED_SECONDS:
            try:
                self._kept = kept = self._ask()
            except AwsError:
                if kept is None or self._now() >= kept[1]:
                    raise
        return kept[0]

    def _ask(self) -> tuple[Key, float]:
        url, token = self._address()
        place, query = place_of(url), urlsplit(url).query
        target = f"{place.path}?{query}" if query else place.path
        lines = [f"GET {target} HTTP/1.1", f"host: {place.authority}", "connection: close"]
        lines += [f"authorization: {token}"] if token else []
        wire = Wire(place, connect_seconds=_SECONDS, answer_seconds=_SECONDS, kept=0)
        reply = wire.send("\r\n".join((*lines, "", "")).encode("latin-1"))
        if reply.status >= 500:
            raise NoAnswer(f"{place.authority} gives no AWS credentials now: status {reply.status}")
        try:
            answer = json.loads(reply.body)
            until = datetime.fromisoformat(answer["Expiration"]).timestamp()
            return Key(answer["AccessKeyId"], answer["SecretAccessKey"], answer["Token"]), until
        except (ValueError, LookupError, TypeError) as error:
            raise AwsError(f"{place.authority} gives no AWS credentials: status {reply.status}") from error


class _FromChain:
    """The key of botocore's chain: of a role, a login, a file. The chain is loaded with the first call."""

    def __init__(self) -> None:
        self._found: Any = None
        self._key: Key | None = None

    def __call__(self) -> Key:
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - only where Lambda gives no key
        from botocore.session import Session  # noqa: PLC0415

        try:
            self._found = self._found or Session().get_credentials()
            if self._found is None:
                raise AwsError("there are no AWS credentials")
            now = self._found.get_frozen_credentials()
        except BotoCoreError as error:
            raise AwsError(f"the AWS credentials cannot be used: {error}") from error
        key = Key(now.access_key, now.secret_key, now.token or "")
        if self._key != key:
            self._key = key
        return self._key  # the same one until it is renewed, so that its signing key is kept

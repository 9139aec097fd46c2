"""The credentials of the process: those of the environment, as Lambda gives them, else whatever botocore finds.

Those of the environment stay what they are for the life of a process; botocore renews the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.aws.failures import AwsError
from stepwell.aws.thin.signer import Key


def keys_of(given: Key | None) -> Callable[[], Key]:
    """Returns a function that tells the key to sign with. It raises AwsError if there is none."""
    return _FromChain() if given is None else lambda: given


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

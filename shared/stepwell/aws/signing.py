"""SigV4 for the HTTP API: an httpx.Auth that signs each call with the credentials of boto3's chain.

It signs exactly what is sent. A space in a query is `%20`, because the signature does not allow `+`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from stepwell.aws.identity import credentials_error, no_region

SERVICE = "execute-api"
SIGNED = ("host", "content-type", "idempotency-key")  # and the date; proxies may change other headers
ADDED = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")


class SigV4(httpx.Auth):
    """Signs for API Gateway in one region."""

    requires_request_body = True

    def __init__(self, credentials: Any, region: str) -> None:
        """`credentials` are botocore's, read for each call because those of a role or a login are renewed."""
        self._credentials = credentials
        self._region = region

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Adds the headers. Raises UserError `bad_credentials` if the credentials cannot be renewed."""
        if b"+" in request.url.query:
            request.url = request.url.copy_with(query=request.url.query.replace(b"+", b"%20"))
        url = f"{request.url.scheme}://{request.url.netloc.decode()}{request.url.raw_path.decode()}"
        headers = {name: request.headers[name] for name in SIGNED if name in request.headers}
        signed = AWSRequest(request.method, url, headers=headers, data=request.content)
        try:
            frozen = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise credentials_error(error) from error
        SigV4Auth(frozen, SERVICE, self._region).add_auth(signed)
        request.headers.update({name: signed.headers[name] for name in ADDED if name in signed.headers})
        yield request


def signature(region: str) -> SigV4:
    """Returns a signature with the credentials, and the default region, of boto3's chain. Raises UserError."""
    session = Session()
    try:
        region = region or session.get_config_variable("region") or ""
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise credentials_error(error) from error
    if credentials is None:
        raise credentials_error(None)
    if not region:
        raise no_region()
    return SigV4(credentials, region)

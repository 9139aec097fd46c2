"""Calls to the webhooks of an example as another system makes them: raw bytes and headers, over the whole route."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_lambda_powertools.utilities.typing import LambdaContext

from stepwell.api.routes import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.runtime.folder import load_folder
from stepwell.runtime.secrets import EnvironmentSecrets, SecretsByKind
from stepwell.testing.kit import Stepwell


class Webhooks:
    """The sources of a folder's `webhooks.yaml` over the same store as the test's runs. `secrets`: by variable."""

    def __init__(self, stepwell: Stepwell, folder: Path, secrets: Mapping[str, str]) -> None:
        sources = sources_of(load_folder(folder).webhooks, SecretsByKind({"env": EnvironmentSecrets(secrets)}))
        self._stepwell = stepwell
        self._app = app_of(stepwell._parts, webhook_routes(lambda: sources))

    @property
    def now_seconds(self) -> int:
        """What the sender's clock shows."""
        return int(self._stepwell.now.timestamp())

    def deliver(self, source: str, body: str, headers: Mapping[str, str]) -> int:
        """The status of the answer."""
        http = {"method": "POST", "path": f"/webhooks/{source}", "sourceIp": "192.0.2.7"}
        call = {
            "version": "2.0",
            "rawPath": f"/webhooks/{source}",
            "rawQueryString": "",
            "headers": {"content-type": "application/json", **headers},
            "requestContext": {"http": http, "requestId": "1", "stage": "$default"},
            "body": body,
            "isBase64Encoded": False,
        }
        return int(self._app.resolve(call, LambdaContext())["statusCode"])

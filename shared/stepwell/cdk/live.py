"""The live feed: a WebSocket API, and a table of who watches. Only a stack with `live` has them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from constructs import Construct

from stepwell.cdk import metrics, nag
from stepwell.cdk.functions import Handler
from stepwell.cdk.props import EngineProps
from stepwell.cdk.storage import make_table

STAGE = "live"
RATE_PER_SECOND = 100  # connects and messages of all watchers
BURST = 200


class Live(Construct):
    """The WebSocket API and its table; the routes are added with their function."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps) -> None:
        super().__init__(scope, construct_id)
        self._is_local = props.platform == "local"
        self.api = gateway.WebSocketApi(self, "Api", api_name=metrics.api_name(self, "-live"))
        self.stage = gateway.WebSocketStage(
            self,
            "Stage",
            web_socket_api=self.api,
            stage_name=STAGE,
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=RATE_PER_SECOND, burst_limit=BURST),
        )
        nag.acknowledge(self.stage, nag.UNLOGGED)
        # It holds nothing that outlives a connection, so it has no backups and goes with the stack.
        self.table = make_table(self, "Connections", props, removal_policy=cdk.RemovalPolicy.DESTROY)
        nag.acknowledge(self.table, nag.CONNECTIONS)

    @property
    def callback_arn(self) -> str:
        """The ARN of what the functions send to connections."""
        return cdk.Stack.of(self).format_arn(
            service="execute-api", resource=self.api.api_id, resource_name=f"{STAGE}/POST/@connections/*"
        )

    @property
    def api_environment(self) -> dict[str, str]:
        """The environment of the function that tells browsers where the feed is."""
        return {"STEPWELL_LIVE_URL": self._emulated if self._is_local else self.stage.url}

    @property
    def environment(self) -> dict[str, str]:
        """The environment of functions that send to watchers."""
        callback = self._emulated if self._is_local else self.stage.callback_url
        return {"STEPWELL_LIVE_TABLE": self.table.table_name, "STEPWELL_LIVE_CALLBACK": callback}

    @property
    def _emulated(self) -> str:
        """The path at the emulator, whose host is not known here."""
        return f"/_aws/execute-api/{self.api.api_id}/{STAGE}"

    def serve(self, handler: Handler, stream: Handler) -> None:
        """Adds the routes; `stream` sends to watchers too.

        The function checks a ticket that the HTTP API signed for whoever may call it.
        """
        for key in ("$connect", "$disconnect", "$default"):
            target = integrations.WebSocketLambdaIntegration(f"To{key[1:].title()}", handler.function)
            route = self.api.add_route(key, integration=target)
            nag.acknowledge(route, nag.TICKETS)
        for sender in (handler, stream):
            assert sender.function.role  # noqa: S101 - every handler has one
            nag.acknowledge(sender.function.role, nag.about_watchers(self.api, STAGE))

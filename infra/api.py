"""The HTTP API: every call behind one authorizer, but for those that bring their own signature.

These are webhooks, callbacks and the links of approvals. A link's signature is in its path: no path is logged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra import nag
from infra.doors import Doors
from infra.functions import Door
from infra.props import EngineProps

RATE_PER_SECOND = 1_000
BURST = 1_000
KEY_HEADER = "$request.header.x-api-key"
KEY_REMEMBERED = cdk.Duration.minutes(5)  # how long a key that was taken out of use may still be good

Routes = tuple[tuple[str, str], ...]
# The least that a caller needs for each, as execute-api ARNs have it: method and path, `*` for any text.
START: Routes = (("POST", "/workflows/*/runs"), ("POST", "/runs/*/start"))
SEND_EVENT: Routes = (("POST", "/events"), ("POST", "/runs/*/events"))
LINK: Routes = (("POST", "/runs/*/links"),)
READ: Routes = tuple(
    ("GET", path) for path in ("/workflows", "/workflows/*", "/runs", "/runs/*", "/schedules", "/stats", "/deliveries")
)

# Whose callers show a link that the function has signed.
LINKS: Mapping[str, Sequence[gateway.HttpMethod]] = {
    "/callbacks/{token}": [gateway.HttpMethod.POST],
    "/callbacks/{token}/fail": [gateway.HttpMethod.POST],
    "/callbacks/{token}/heartbeat": [gateway.HttpMethod.POST],
    "/approvals/{token}": [gateway.HttpMethod.GET, gateway.HttpMethod.HEAD, gateway.HttpMethod.POST],
}

_ACCESS_LOG = {
    "at": "$context.requestTime",
    "request": "$context.requestId",
    "ip": "$context.identity.sourceIp",
    "caller": "$context.identity.userArn",
    "method": "$context.httpMethod",
    "route": "$context.routeKey",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "refused": "$context.authorizer.error",
    "error": "$context.integrationErrorMessage",
}


class Api(Construct):
    """The API and its stage; its routes, once there are functions that serve them."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self.http = gateway.HttpApi(self, "Http", api_name=cdk.Stack.of(self).stack_name, create_default_stage=False)
        self.access_log = logs.LogGroup(self, "AccessLog", retention=props.log_retention,
                                        encryption_key=props.kms_key, removal_policy=props.removal_policy)  # fmt: skip
        self.stage = self._make_stage()

    @property
    def url(self) -> str:
        """Where others reach it, without a slash at its end."""
        return self._props.public_url or self.http.api_endpoint

    def serve(self, doors: Doors) -> None:
        """Makes the routes."""
        api = integrations.HttpLambdaIntegration("Api", doors.api.function)
        self.http.add_routes(
            path="/{proxy+}",
            methods=[gateway.HttpMethod.ANY],
            integration=api,
            authorizer=_authorizer(self._props, doors.authorizer),
        )
        opened = [key for path, methods in LINKS.items() for key in self._open(path, methods, api, nag.LINKS)]
        if doors.webhooks:
            hooks = integrations.HttpLambdaIntegration("Webhooks", doors.webhooks.function)
            opened += self._open("/webhooks/{source}", [gateway.HttpMethod.POST], hooks, nag.WEBHOOKS)
        self._throttle(opened)

    def _open(
        self,
        path: str,
        methods: Sequence[gateway.HttpMethod],
        integration: integrations.HttpLambdaIntegration,
        reasons: Mapping[str, str],
    ) -> list[str]:
        """Makes routes that nobody guards but the function. Returns their keys."""
        none = gateway.HttpNoneAuthorizer()
        for route in self.http.add_routes(path=path, methods=methods, integration=integration, authorizer=none):
            nag.acknowledge(route, reasons)
            self.stage.node.add_dependency(route)  # whose settings may name only routes that there are
        return [f"{method.value} {path}" for method in methods]

    def _throttle(self, opened: Sequence[str]) -> None:
        """Gives each of the open routes a rate of its own: the stage's is then left to the calls that sign."""
        rate = self._props.open_rate_per_second
        settings = {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": rate, "DetailedMetricsEnabled": True}
        _stage_of(self.stage).route_settings = dict.fromkeys(opened, settings)

    def _make_stage(self) -> gateway.HttpStage:
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.http,
            stage_name="$default",
            auto_deploy=True,
            detailed_metrics_enabled=True,
            throttle=gateway.ThrottleSettings(rate_limit=RATE_PER_SECOND, burst_limit=BURST),
        )
        _stage_of(stage).access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(_ACCESS_LOG)
        )
        return stage

    def arns(self, routes: Routes) -> list[str]:
        """What a principal is allowed to invoke."""
        return [self.http.arn_for_execute_api(method, path, self.stage.stage_name) for method, path in routes]


def _stage_of(stage: gateway.HttpStage) -> gateway.CfnStage:
    resource = stage.node.default_child
    assert isinstance(resource, gateway.CfnStage)  # noqa: S101 - what a stage is made of
    return resource


def _authorizer(props: EngineProps, door: Door | None) -> gateway.IHttpRouteAuthorizer:
    if props.auth == "jwt":
        return authorizers.HttpJwtAuthorizer("Jwt", props.jwt_issuer, jwt_audience=list(props.jwt_audience))
    if door:
        return authorizers.HttpLambdaAuthorizer(
            "ApiKey",
            door.function,
            response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
            identity_source=[KEY_HEADER],
            results_cache_ttl=KEY_REMEMBERED,
        )
    return authorizers.HttpIamAuthorizer()

"""The HTTP API: every call behind one authorizer, but for webhooks, which bring their own signature."""

from __future__ import annotations

import json

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
READ: Routes = tuple(
    ("GET", path) for path in ("/workflows", "/workflows/*", "/runs", "/runs/*", "/schedules", "/stats")
)

_ACCESS_LOG = {
    "at": "$context.requestTime",
    "request": "$context.requestId",
    "ip": "$context.identity.sourceIp",
    "caller": "$context.identity.userArn",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "refused": "$context.authorizer.error",
    "error": "$context.integrationErrorMessage",
}


class Api(Construct):
    """The API, its stage and its routes."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps, doors: Doors) -> None:
        super().__init__(scope, construct_id)
        self.http = gateway.HttpApi(self, "Http", api_name=cdk.Stack.of(self).stack_name, create_default_stage=False)
        self.http.add_routes(
            path="/{proxy+}",
            methods=[gateway.HttpMethod.ANY],
            integration=integrations.HttpLambdaIntegration("Api", doors.api.function),
            authorizer=_authorizer(props, doors.authorizer),
        )
        if doors.webhooks:
            (route,) = self.http.add_routes(
                path="/webhooks/{source}",
                methods=[gateway.HttpMethod.POST],
                integration=integrations.HttpLambdaIntegration("Webhooks", doors.webhooks.function),
                authorizer=gateway.HttpNoneAuthorizer(),
            )
            nag.acknowledge(route, nag.WEBHOOKS)
        self.access_log = logs.LogGroup(self, "AccessLog", retention=props.log_retention,
                                        encryption_key=props.kms_key, removal_policy=props.removal_policy)  # fmt: skip
        self.stage = self._make_stage()

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
        resource = stage.node.default_child
        assert isinstance(resource, gateway.CfnStage)  # noqa: S101 - what a stage is made of
        resource.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(_ACCESS_LOG)
        )
        return stage

    def arns(self, routes: Routes) -> list[str]:
        """What a principal is allowed to invoke."""
        return [self.http.arn_for_execute_api(method, path, self.stage.stage_name) for method, path in routes]


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

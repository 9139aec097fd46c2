"""The HTTP API, with one authorizer for all calls without their own signature.

Webhooks, callbacks and approval links have their own. A link's signature is in its path, so paths are not logged.
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

from stepwell import cors
from stepwell.cdk import metrics, nag
from stepwell.cdk.functions import Handler
from stepwell.cdk.handlers import Handlers
from stepwell.cdk.props import EngineProps

KEY_HEADER = "$request.header.x-api-key"
SIGNATURE_HEADER = "$request.header.Authorization"  # has the API key in place of an access key's id
STEP_FUNCTIONS = "/aws/states"
KEY_REMEMBERED = cdk.Duration.minutes(5)  # how long a revoked key may still work
NOT_REMEMBERED = cdk.Duration.seconds(0)  # no two signatures are the same

Routes = tuple[tuple[str, str], ...]
# The minimal permissions of callers, as in execute-api ARNs: method and path, `*` for any text.
START: Routes = (("POST", "/workflows/*/runs"), ("POST", "/runs/*/start"))
SEND_EVENT: Routes = (("POST", "/events"), ("POST", "/runs/*/events"))
LINK: Routes = (("POST", "/runs/*/links"),)
STATES: Routes = (("POST", STEP_FUNCTIONS),)
READ: Routes = tuple(
    ("GET", path)
    for path in ("/workflows", "/workflows/*", "/runs", "/runs/*", "/failures", "/schedules", "/limits", "/limits/*",
                 "/stats", "/health", "/deliveries", "/stream")
)  # fmt: skip

# Routes for signed links.
LINKS: Mapping[str, Sequence[gateway.HttpMethod]] = {
    "/callbacks/{token}": [gateway.HttpMethod.POST],
    "/callbacks/{token}/fail": [gateway.HttpMethod.POST],
    "/callbacks/{token}/heartbeat": [gateway.HttpMethod.POST],
    "/approvals/{token}": [gateway.HttpMethod.GET, gateway.HttpMethod.HEAD, gateway.HttpMethod.POST],
}

CONSOLE = ("/", "/console/{file}")

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
    """The API and its stage; routes are added with their functions."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        self.http = gateway.HttpApi(
            self,
            "Http",
            api_name=metrics.api_name(self),
            create_default_stage=False,
            cors_preflight=_cors(props.cors_origins),
        )
        self.access_log = logs.LogGroup(self, "AccessLog", retention=props.log_retention,
                                        encryption_key=props.kms_key, removal_policy=props.removal_policy)  # fmt: skip
        self.stage = self._make_stage()

    @property
    def url(self) -> str:
        """The public URL, without a trailing slash."""
        return self._props.public_url or self.http.api_endpoint

    def serve(self, handlers: Handlers) -> None:
        """Adds the routes."""
        api = integrations.HttpLambdaIntegration("Api", handlers.api.called)
        self.http.add_routes(
            path="/{proxy+}",
            methods=[gateway.HttpMethod.ANY],
            integration=api,
            authorizer=_authorizer(self._props, handlers.authorizer),
        )
        if handlers.authorizer:  # boto3 sends no `x-api-key`
            self.http.add_routes(
                path=STEP_FUNCTIONS,
                methods=[gateway.HttpMethod.POST],
                integration=api,
                authorizer=_by_function("SignedKey", handlers.authorizer, SIGNATURE_HEADER, NOT_REMEMBERED),
            )
        if self._props.cors_origins:  # a browser asks first, without credentials; API Gateway adds the headers
            self._open("/{proxy+}", [gateway.HttpMethod.OPTIONS], api, nag.PREFLIGHT)
        opened = [key for path, methods in LINKS.items() for key in self._open(path, methods, api, nag.LINKS)]
        if self._props.console_client_id:
            opened += [key for path in CONSOLE for key in self._open(path, [gateway.HttpMethod.GET], api, nag.CONSOLE)]
        if handlers.webhooks:
            hooks = integrations.HttpLambdaIntegration("Webhooks", handlers.webhooks.called)
            opened += self._open("/webhooks/{source}", [gateway.HttpMethod.POST], hooks, nag.WEBHOOKS)
        self._throttle(opened)

    def _open(
        self,
        path: str,
        methods: Sequence[gateway.HttpMethod],
        integration: integrations.HttpLambdaIntegration,
        reasons: Mapping[str, str],
    ) -> list[str]:
        """Adds routes without an authorizer, which their function protects. Returns their keys."""
        none = gateway.HttpNoneAuthorizer()
        for route in self.http.add_routes(path=path, methods=methods, integration=integration, authorizer=none):
            nag.acknowledge(route, reasons)
            self.stage.node.add_dependency(route)  # the stage's settings may name only existing routes
        return [f"{method.value} {path}" for method in methods]

    def _throttle(self, opened: Sequence[str]) -> None:
        """Limits the rate of each open route, so that signed calls keep the stage's own rate."""
        rate = self._props.open_rate_per_second
        settings = {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": rate, "DetailedMetricsEnabled": True}
        _stage_of(self.stage).route_settings = dict.fromkeys(opened, settings)

    def _make_stage(self) -> gateway.HttpStage:
        rate = self._props.rate_per_second
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.http,
            stage_name="$default",
            auto_deploy=True,
            detailed_metrics_enabled=True,
            throttle=gateway.ThrottleSettings(rate_limit=rate, burst_limit=rate),
        )
        _stage_of(stage).access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(_ACCESS_LOG)
        )
        return stage

    def arns(self, routes: Routes) -> list[str]:
        """Returns the ARNs of these routes, for a policy that allows calls of them."""
        return [self.http.arn_for_execute_api(method, path, self.stage.stage_name) for method, path in routes]


def _cors(origins: Sequence[str]) -> gateway.CorsPreflightOptions | None:
    if not origins:
        return None
    return gateway.CorsPreflightOptions(
        allow_origins=[*origins],
        allow_methods=[gateway.CorsHttpMethod.ANY],
        allow_headers=[*cors.HEADERS],
        expose_headers=[*cors.EXPOSED],
        max_age=cdk.Duration.seconds(cors.KEPT_SECONDS),
    )


def _stage_of(stage: gateway.HttpStage) -> gateway.CfnStage:
    resource = stage.node.default_child
    assert isinstance(resource, gateway.CfnStage)  # noqa: S101 - the resource of a stage
    return resource


def _authorizer(props: EngineProps, handler: Handler | None) -> gateway.IHttpRouteAuthorizer:
    if props.auth == "jwt":
        return authorizers.HttpJwtAuthorizer("Jwt", props.jwt_issuer, jwt_audience=list(props.jwt_audience))
    return _by_function("ApiKey", handler, KEY_HEADER, KEY_REMEMBERED) if handler else authorizers.HttpIamAuthorizer()


def _by_function(
    construct_id: str, handler: Handler, header: str, remembered: cdk.Duration
) -> gateway.IHttpRouteAuthorizer:
    """Has the authorizer's function decide by a header. Its answers are `remembered` for so long."""
    return authorizers.HttpLambdaAuthorizer(
        construct_id,
        handler.function,
        response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
        identity_source=[header],
        results_cache_ttl=remembered,
    )

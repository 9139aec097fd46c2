"""The API: who is let in where, what is written of each call, how many there may be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stepwell.cdk.errors import BadProperty
from stepwell.cdk.props import EngineProps
from stepwell.limits import LINK_KEY_CHARACTERS
from stepwell.settings import read_deployment
from tests.emulator.tokens import authorizer
from tests.infra.kit import GUARDED, KEYED, ORDER, PLAIN, ROOT, VARIANTS, Json, Made, made, plain

LINKED = {
    "POST /callbacks/{token}",
    "POST /callbacks/{token}/fail",
    "POST /callbacks/{token}/heartbeat",
    "GET /approvals/{token}",
    "HEAD /approvals/{token}",
    "POST /approvals/{token}",
}


def test_web_pages_may_call_only_from_the_origins_that_are_named(tmp_path: Path) -> None:
    assert "CorsConfiguration" not in made(PLAIN).only("ApiGatewayV2::Api")
    stack = made({**PLAIN, "cors_origins": "https://shop.example.com, http://localhost:3000"})
    allowed = stack.only("ApiGatewayV2::Api")["CorsConfiguration"]
    assert allowed["AllowOrigins"] == ["https://shop.example.com", "http://localhost:3000"]
    assert {"authorization", "x-api-key", "idempotency-key"} <= {*allowed["AllowHeaders"]}
    assert route(stack, "OPTIONS /{proxy+}")["AuthorizationType"] == "NONE"
    with pytest.raises(BadProperty, match=r"shop\.example\.com/' is not an origin"):
        EngineProps(folder=tmp_path, cors_origins=["https://shop.example.com/"])


def route(stack: Made, key: str) -> Json:
    (found,) = [one for one in stack.of("ApiGatewayV2::Route").values() if one["RouteKey"] == key]
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_call_that_shows_no_signature_of_its_own_is_let_in_by_somebody(variant: str) -> None:
    stack = made(VARIANTS[variant])
    open_ = {one["RouteKey"] for one in stack.of("ApiGatewayV2::Route").values()
             if one.get("AuthorizationType", "NONE") == "NONE"}  # fmt: skip
    sources = {"POST /webhooks/{source}"} if "webhooks" in stack.functions() else set()
    tickets = {"$connect", "$disconnect", "$default"} if "live" in stack.functions() else set()
    console = {"GET /", "GET /console/{file}"} if VARIANTS[variant] is GUARDED else set()
    assert open_ == sources | LINKED | tickets | console
    keyed = {"POST /aws/states"} if VARIANTS[variant] is KEYED else set()
    assert {one["RouteKey"] for one in stack.of("ApiGatewayV2::Route").values()} - open_ == {"ANY /{proxy+}"} | keyed


def test_callers_sign_by_default() -> None:
    assert route(made(PLAIN), "ANY /{proxy+}")["AuthorizationType"] == "AWS_IAM"
    assert not made(PLAIN).has("ApiGatewayV2::Authorizer")


def test_a_token_is_checked_for_who_made_it_and_for_whom() -> None:
    assert route(made(GUARDED), "ANY /{proxy+}")["AuthorizationType"] == "JWT"
    checked = made(GUARDED).only("ApiGatewayV2::Authorizer")
    assert checked == {"ApiId": checked["ApiId"], **authorizer("https://issuer.example.org/")}


def test_a_key_is_made_by_the_stack_and_checked_by_a_function() -> None:
    stack = made(KEYED)
    assert route(stack, "ANY /{proxy+}")["AuthorizationType"] == "CUSTOM"
    authorizer = _authorizer_of(stack, "ANY /{proxy+}")
    assert authorizer["IdentitySource"] == ["$request.header.x-api-key"]
    for secret in stack.of("SecretsManager::Secret").values():
        assert secret["GenerateSecretString"]["PasswordLength"] >= LINK_KEY_CHARACTERS


def test_a_key_in_a_signature_is_checked_anew_for_each_call() -> None:
    """boto3 signs each call otherwise, and sends no other header that a caller can choose."""
    authorizer = _authorizer_of(made(KEYED), "POST /aws/states")
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    assert authorizer["AuthorizerResultTtlInSeconds"] == 0


def _authorizer_of(stack: Made, key: str) -> Json:
    authorizer = stack.of("ApiGatewayV2::Authorizer")[route(stack, key)["AuthorizerId"]["Ref"]]
    assert stack.id_of("authorizer") in json.dumps(authorizer["AuthorizerUri"])
    assert (authorizer["EnableSimpleResponses"], authorizer["AuthorizerPayloadFormatVersion"]) == (True, "2.0")
    return authorizer


def test_a_folder_without_webhooks_has_no_route_for_them(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / ORDER, tmp_path / "order", ignore=shutil.ignore_patterns("webhooks.yaml"))
    stack = made({"folder": str(folder)})
    assert {one["RouteKey"] for one in stack.of("ApiGatewayV2::Route").values()} == {"ANY /{proxy+}"} | LINKED
    assert "webhooks" not in stack.functions()


def test_routes_lead_to_their_functions() -> None:
    stack = made(PLAIN)
    for key, name in (("ANY /{proxy+}", "api"), ("POST /webhooks/{source}", "webhooks"), *((k, "api") for k in LINKED)):
        integration = stack.of("ApiGatewayV2::Integration")[route(stack, key)["Target"]["Fn::Join"][1][1]["Ref"]]
        assert plain(integration["IntegrationUri"]) == f"<{stack.id_of(name)}.Arn>"
        assert integration["PayloadFormatVersion"] == "2.0"


def test_each_call_is_logged_and_their_number_is_bounded() -> None:
    stack = made(PLAIN)
    stage = stack.only("ApiGatewayV2::Stage")
    assert stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0] in stack.of("Logs::LogGroup")
    assert {"status", "caller", "route"} <= set(json.loads(stage["AccessLogSettings"]["Format"]))
    assert "$context.path" not in stage["AccessLogSettings"]["Format"], "a link's signature is in its path"
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] > 0
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] > 0


def test_routes_that_ask_for_no_signature_have_a_rate_of_their_own() -> None:
    """A flood of them leaves the stage's rate to the calls that sign."""
    for context, rate in ((PLAIN, 100), (KEYED, 20)):
        stack = made(context)
        stage_id, stage = next(iter(stack.of("ApiGatewayV2::Stage").items()))
        sources = {"POST /webhooks/{source}"} if "webhooks" in stack.functions() else set()
        assert set(stage["RouteSettings"]) == LINKED | sources
        for settings in stage["RouteSettings"].values():
            assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (rate, rate)
            assert rate < stage["DefaultRouteSettings"]["ThrottlingRateLimit"]
        before = stack.resources[stage_id]["DependsOn"]
        routes = stack.of("ApiGatewayV2::Route")
        assert {routes[one]["RouteKey"] for one in before if one in routes} == LINKED | sources


def test_links_lead_to_the_api_or_to_where_it_is_said_to_be() -> None:
    for context, url in ((PLAIN, "ApiEndpoint"), (KEYED, "https://flows.example.org/api")):
        variables = made(context).functions()["worker-default"]["Environment"]["Variables"]
        assert url in str(variables["STEPWELL_URL"])
    told = made(KEYED).functions()
    links = {name for name, one in told.items() if "STEPWELL_LINK_SECRET" in one["Environment"]["Variables"]}
    assert links == {"api", "worker-default", "worker-big"}
    assert read_deployment({"STEPWELL_LINK_SECRET": "s", "STEPWELL_URL": "https://a"}).link_secret == "s"  # noqa: S105


def test_the_outputs_say_where_everything_is() -> None:
    outputs = {"AlarmsTo", "ApiUrl", "TableName", "BucketName", "BusName", "ResumeQueueUrl", "DeadQueueUrl",
               "WorkQueueUrls", "WorkerNames"}  # fmt: skip
    assert set(made(PLAIN).outputs) == outputs | {"DashboardName"}
    assert set(made(KEYED).outputs) == outputs | {"DashboardName", "ApiKeySecret"}
    assert plain(made(PLAIN).outputs["ApiUrl"]["Value"]).startswith("<")
    work = json.loads(plain(made(KEYED).outputs["WorkQueueUrls"]["Value"]))
    assert work == {"default": f"<{made(KEYED).queue('Workdefault')}>", "big": f"<{made(KEYED).queue('Workbig')}>"}

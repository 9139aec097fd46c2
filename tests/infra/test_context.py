"""The context, of cdk.json or of the command line: what it may say, and what it is told when it says something else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from infra import app
from stepwell.cdk import context
from stepwell.cdk.errors import BadProperty
from stepwell.cdk.props import EngineProps
from tests.infra.kit import ORDER, ROOT, made

FOLDER = str(ROOT / ORDER)


def read(**given: Any) -> EngineProps:
    return context.read(cdk.Stack(cdk.App()), {"folder": FOLDER, **given})


def test_a_value_of_the_command_line_is_text_and_means_the_same() -> None:
    as_json: Mapping[str, Any] = {
        "pools": {"default": {"memory_mb": 512, "concurrency": 4, "steps_per_invocation": 5}},
        "jwt_audience": ["a", "b"],
        "log_retention_days": 7,
        "max_steps": 100,
        "alarms": False,
    }
    as_text = {key: value if isinstance(value, str) else json.dumps(value) for key, value in as_json.items()}
    jwt = {"auth": "jwt", "jwt_issuer": "https://issuer.example.org/"}
    assert read(**as_json, **jwt) == read(**as_text, **jwt)
    as_text["jwt_audience"] = "a, b"
    assert read(**as_json, **jwt) == read(**as_text, **jwt)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"auth": "open"}, "auth: 'open' is not one of iam, jwt, api_key"),
        ({"auth": "jwt"}, "auth: jwt needs jwt_issuer"),
        ({"auth": "jwt", "jwt_issuer": "http://plain.example.org", "jwt_audience": "a"}, "an https:// URL"),
        ({"jwt_issuer": "https://issuer.example.org/"}, "are for jwt, not for iam"),
        ({"folder": "nowhere"}, "there is no folder nowhere"),
        ({"folder": 3}, "folder: 3 is not text"),
        ({"max_steps": "many"}, "max_steps: 'many' is not a whole number"),
        ({"max_steps": 100_001}, "max_steps: 100001 is not a whole number from 1 to 100000"),
        ({"max_steps": True}, "max_steps: True is not a whole number"),
        ({"alarms": "yes"}, "alarms: 'yes' is neither true nor false"),
        ({"emulator": "yes"}, "emulator: 'yes' is neither true nor false"),
        ({"http_hosts": "[a"}, "http_hosts: '[a' is not JSON"),
        ({"http_hosts": "*"}, "http_hosts: '*': use host names"),
        ({"http_hosts": ["http://localhost:8000"]}, "use host names"),
        ({"log_level": "loud"}, "log_level: 'loud' is not one of debug, info, warning, error"),
        ({"log_retention_days": 31}, "log_retention_days: 31 is not one of 1, 3, 7"),
        ({"removal_policy": "keep"}, "removal_policy: 'keep' is not one of retain, destroy"),
        ({"python": "3.10"}, "python: '3.10' is not one of 3.11, 3.12, 3.13, 3.14"),
        ({"platform": "windows"}, "platform: 'windows' is not one of lambda, local"),
        ({"coordinator_concurrency": 1}, "coordinator_concurrency: 1 is not a whole number from 2 to 1000"),
        ({"pools": "default"}, "pools: 'default' is not JSON"),
        ({"pools": ["default"]}, "is not an object"),
        ({"pools": {"big": {}}}, "pools: big: `default` must be among them"),
        ({"pools": {"default": {}, "a b": {}}}, "'a b' is not a valid name"),
        ({"pools": {"default": {"memory": 512}}}, "pools.default: 'memory' is not one of memory_mb"),
        ({"pools": {"default": {"memory_mb": 64}}}, "pools.default.memory_mb: 64 is not a whole number from 128"),
        ({"pools": {"default": {"timeout_seconds": 901}}}, "pools.default.timeout_seconds: 901"),
        ({"pools": {"default": {"concurrency": 1}}}, "pools.default.concurrency: 1 is not a whole number from 2"),
        ({"pools": {"default": {"steps_per_invocation": 0}}}, "pools.default.steps_per_invocation: 0 is not a whole"),
        ({"pools": {"default": {"steps_per_invocation": 11}}}, "11 is not a whole number from 1 to 10"),
        ({"pools": {"default": {"environment": {"STEPWELL_TABLE": "x"}}}}, "STEPWELL_TABLE belong to Stepwell"),
        ({"pools": {"default": {"environment": {"SIZE": 3}}}}, "pools.default.environment.SIZE: 3 is not text"),
        ({"pools": {"default": {"environment": {"LAMBDA_TASK_ROOT": "x"}}}}, "LAMBDA_TASK_ROOT belong to Stepwell"),
        ({"pools": {"default": {"environment": {"my-size": "3"}}}}, "'my-size' is not a name that Lambda takes"),
        ({"pools": {"default": {"environment": {"N": "3"}}}}, "environment: 'N' is not a name that Lambda takes"),
        ({"pools": {"default": {"permissions": {}}}}, "is not a list of statements"),
        (
            {"pools": {"default": {"permissions": [{"actions": ["read"], "resources": ["*"]}]}}},
            "pools.default.permissions.actions: 'read' is not an action such as s3:GetObject",
        ),
        ({"kms_key_arn": "alias/mine"}, "kms_key_arn: 'alias/mine' is not the ARN of a key: arn:aws:kms:"),
        ({"kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:alias/mine"}, "is not the ARN of a key"),
        ({"former_kms_key_arns": "arn:aws:s3:::bucket"}, "former_kms_key_arns: 'arn:aws:s3:::bucket' is not the ARN"),
        ({"alarm_email": "ops"}, "alarm_email: 'ops' is not the address of a mailbox"),
        ({"pools": {"default": {"permissions": [{"actions": ["a:b"]}]}}}, "needs actions and resources"),
        ({"vpc": {"id": "vpc-12345678"}}, "it needs id, availability_zones and subnet_ids"),
        ({"pool": "{}"}, "unknown property pool; is it pools?"),
        ({"package": "[]"}, "unknown property package; is it packages?"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_it_may_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadProperty) as refusal:
        read(**given)
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["my_stack", "9lives", "s" * 129, "flows."])
def test_a_name_that_no_stack_can_have_is_told_before_the_cdk_meets_it(name: str) -> None:
    with pytest.raises(BadProperty, match=r"stack_name: .* is not a name of a stack: a letter, then letters, digits"):
        context.stack_name({"stack_name": name})
    assert context.stack_name({"stack_name": "Flows-1"}) == "Flows-1"


def test_the_cdks_own_context_is_none_of_ours() -> None:
    read(**{"aws:cdk:enable-path-metadata": True, "@aws-cdk/core:newStyle": True, "availability-zones:account=1": []})


def test_an_empty_value_is_none() -> None:
    assert read(alarm_email="", kms_key_arn="").alarm_email == ""


def test_what_the_emulator_switches_off_can_be_switched_on_again() -> None:
    assert not read(emulator="true").alarms
    assert read(emulator="true", alarms="true").alarms
    assert read(emulator="true").platform == "local"
    assert read().platform == "lambda"


def test_the_folder_is_workflows_where_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadProperty, match="there is no folder workflows"):
        context.read(cdk.Stack(cdk.App()), {})
    (tmp_path / "workflows").mkdir()
    assert context.read(cdk.Stack(cdk.App()), {}).folder == Path("workflows")


def test_the_context_in_the_repository_makes_a_stack() -> None:
    file = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    assert file["app"].endswith("python -m infra.app")
    assert made({**file["context"], "folder": str(ROOT / file["context"]["folder"])}).functions()


def test_a_bad_context_ends_the_app_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CDK_CONTEXT_JSON", json.dumps({"folder": FOLDER, "auth": "open"}))
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    assert app.main() == 1
    assert capsys.readouterr().err == "error: auth: 'open' is not one of iam, jwt, api_key [bad_property]\n"
    assert not list(tmp_path.glob("*.template.json"))

"""A customer's key: who may use it, and what it does not open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms

from stepwell.cdk.engine import StepwellEngine
from stepwell.cdk.props import EngineProps
from tests.infra.kit import FORMER_KEY_ARN, GUARDED, MAIL, ORDER, ROOT, VARIANTS, Json, Made, listed, made, plain


@pytest.fixture(scope="module")
def own_key(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An engine under a key of its own app, which the engine opens to services."""
    out = tmp_path_factory.mktemp("own")
    app = cdk.App(outdir=str(out))
    stack = cdk.Stack(app, "Mine")
    key = kms.Key(stack, "Key")
    StepwellEngine(stack, "Flows", EngineProps(folder=ROOT / ORDER, bundle=False, kms_key=key, alarm_email=MAIL))
    app.synth()
    file = out / "Mine.template.json"
    template = json.loads(file.read_text())
    return Made(file, template["Resources"], {})


def services(policy: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """(service, conditions) of each statement that allows a service."""
    for one in policy["Statement"]:
        if one["Effect"] == "Allow" and isinstance(one["Principal"], dict) and "Service" in one["Principal"]:
            yield plain(one["Principal"]["Service"]), one.get("Condition", {})


def test_no_service_may_use_the_key_for_another_account(own_key: Made) -> None:
    allowed = list(services(own_key.only("KMS::Key")["KeyPolicy"]))
    assert {service for service, _ in allowed} >= {"cloudwatch.amazonaws.com", "events.amazonaws.com"}
    assert [service for service, condition in allowed if not condition] == []


def test_the_log_service_alone_encrypts_anew_under_the_key(own_key: Made) -> None:
    """Who sends to a queue or a topic, and who keeps a bus, needs a data key and no more."""
    allowed: dict[str, set[str]] = {}
    for one in own_key.only("KMS::Key")["KeyPolicy"]["Statement"]:
        if "Service" in one["Principal"]:
            allowed.setdefault(plain(one["Principal"]["Service"]), set()).update(listed(one["Action"]))
    send = {"kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"}
    assert allowed["cloudwatch.amazonaws.com"] == allowed["events.amazonaws.com"] == send
    keep = {"kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"}
    assert allowed["logs.<AWS::Region>.<AWS::URLSuffix>"] == send | keep


def test_logs_use_the_key_in_every_partition(own_key: Made) -> None:
    """In China the service's name ends as its hosts do."""
    named = [service for service, _ in services(own_key.only("KMS::Key")["KeyPolicy"]) if service.startswith("logs.")]
    assert named == ["logs.<AWS::Region>.<AWS::URLSuffix>"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_stacks_own_rule_alone_sends_to_the_resume_queue(variant: str) -> None:
    stack = made(VARIANTS[variant])
    (rule,) = (id_ for id_, one in stack.of("Events::Rule").items() if "EventPattern" in one)
    (policy,) = (one for one in stack.of("SQS::QueuePolicy").values()
                 if {"Ref": stack.queue("Resume")} in one["Queues"])  # fmt: skip
    ((service, condition),) = services(policy["PolicyDocument"])
    assert (service, condition) == (
        "events.amazonaws.com", {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [rule, "Arn"]}}}
    )  # fmt: skip
    (sends,) = (one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow")
    assert listed(sends["Action"]) == ["sqs:SendMessage"]


def test_what_was_written_under_a_former_key_can_be_read_and_nothing_more_is_written_under_it() -> None:
    stack = made(GUARDED)
    for name in stack.functions():
        (uses,) = (one for one in stack.statements(name) if FORMER_KEY_ARN in listed(one["Resource"]))
        assert listed(uses["Action"]) == ["kms:Decrypt"], name
    data = [one for one in stack.resources.values() if one["Type"] != "AWS::IAM::Role"]
    assert FORMER_KEY_ARN not in json.dumps(data)

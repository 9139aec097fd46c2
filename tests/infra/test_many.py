"""Several engines in one account and region: none has the names of another."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
import pytest

from stepwell.cdk.engine import StepwellEngine
from stepwell.cdk.props import EngineProps
from tests.infra.kit import ORDER, ROOT, Json

PROPS = EngineProps(folder=ROOT / ORDER, bundle=False)


def resources(stack: cdk.Stack, kind: str) -> list[Json]:
    found: Mapping[str, Json] = cdk.assertions.Template.from_stack(stack).find_resources(f"AWS::{kind}")
    return [one["Properties"] for one in found.values()]


def bus_of(stack: cdk.Stack) -> str:
    StepwellEngine(stack, "Stepwell", PROPS)
    (bus,) = resources(stack, "Events::EventBus")
    return str(bus["Name"])


def test_stacks_of_one_id_and_two_names_have_two_buses() -> None:
    """CloudFormation cannot name a bus: the CDK does, by the ids of its constructs."""
    names = [bus_of(cdk.Stack(cdk.App(), "Flows", stack_name=name)) for name in ("flows-dev", "flows-prod")]
    assert [name.partition("-Stepwell")[0] for name in names] == ["flows-dev", "flows-prod"]


def test_nested_stacks_of_one_id_have_two_buses() -> None:
    parents = [cdk.Stack(cdk.App(), "Flows", stack_name=name) for name in ("flows-dev", "flows-prod")]
    assert len({bus_of(cdk.NestedStack(parent, "Engine")) for parent in parents}) == 2


@pytest.mark.parametrize("stage", ["", "Prod"])
def test_the_bus_of_a_stack_that_is_named_by_its_id_keeps_its_name(stage: str) -> None:
    """Under another name it would be another bus, without the rules of others on it."""
    scope = cdk.Stage(cdk.App(), stage) if stage else cdk.App()
    assert bus_of(cdk.Stack(scope, "Flows")).startswith(f"{stage}FlowsStepwellStorageBus")


def test_two_engines_of_a_stack_count_and_ring_apart() -> None:
    stack = cdk.Stack(cdk.App(), "Flows")
    for name in ("First", "Second"):
        StepwellEngine(stack, name, PROPS)
    variables = [one["Environment"]["Variables"] for one in resources(stack, "Lambda::Function")]
    assert {one["POWERTOOLS_SERVICE_NAME"] for one in variables} == {"Flows", "Flows-Second"}
    rings = [one for one in resources(stack, "CloudWatch::Alarm") if one.get("MetricName") == "Overdue"]
    assert sorted(one["Dimensions"][0]["Value"] for one in rings) == ["Flows", "Flows-Second"]
    assert sorted(one["Name"] for one in resources(stack, "ApiGatewayV2::Api")) == ["Flows", "Flows-Second"]


def test_a_stack_with_the_longest_name_names_its_apis_within_the_limit_of_api_gateway() -> None:
    stack = cdk.Stack(cdk.App(), "Flows", stack_name="s" * 128)
    for name in ("First", "Second"):
        StepwellEngine(stack, name, EngineProps(folder=ROOT / ORDER, bundle=False, live=True))
    names = [one["Name"] for one in resources(stack, "ApiGatewayV2::Api")]
    assert [len(name) for name in names] == [128] * 4
    assert sum(name.endswith("-live") for name in names) == 2

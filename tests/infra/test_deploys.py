"""A deploy of the stack wakes the runs that wait for code, whichever command made it."""

from __future__ import annotations

import json

import pytest

from stepwell.runtime.messages import Deployed, from_json
from tests.infra.kit import VARIANTS, made


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_end_of_an_update_sends_the_coordinator_a_message_that_it_reads(variant: str) -> None:
    stack = made(VARIANTS[variant])
    (rule,) = (one for one in stack.of("Events::Rule").values() if "EventPattern" in one)
    pattern = rule["EventPattern"]
    assert pattern["source"] == ["aws.cloudformation"]
    assert pattern["detail"]["stack-id"] == [{"Ref": "AWS::StackId"}]
    assert pattern["detail"]["status-details"]["status"] == ["UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]
    (target,) = rule["Targets"]
    assert target["Arn"]["Fn::GetAtt"][0] == stack.queue("Resume")
    (name,) = target["InputTransformer"]["InputPathsMap"]
    template = target["InputTransformer"]["InputTemplate"].replace(f"<{name}>", '"e1"')
    assert from_json(json.loads(template)) == Deployed("e1")

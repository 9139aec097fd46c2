"""Deploys: wakes the runs that wait for code when CloudFormation has updated the stack.

CloudFormation reports to the account's event bus, so this works for every way to deploy the stack, rollbacks
included, without a custom resource or another function.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

STATUSES = ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Deploys(Construct):
    """Creates a rule that sends `deployed` to the resume queue."""

    def __init__(self, scope: Construct, construct_id: str, resume: sqs.Queue) -> None:
        super().__init__(scope, construct_id)
        pattern = events.EventPattern(
            source=["aws.cloudformation"],
            detail_type=["CloudFormation Stack Status Change"],
            detail={"stack-id": [cdk.Stack.of(self).stack_id], "status-details": {"status": list(STATUSES)}},
        )
        message = events.RuleTargetInput.from_object({"type": "deployed", "id": events.EventField.event_id})
        events.Rule(self, "Rule", event_pattern=pattern, targets=[targets.SqsQueue(resume, message=message)])

"""Deploys: when CloudFormation has updated the stack, runs that wait for code are woken.

CloudFormation itself tells the account's event bus, so that it works for every way to deploy a stack: no custom
resource, no further function, and a rollback counts too.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

STATUSES = ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Deploys(Construct):
    """A rule that sends `deployed` to the resume queue."""

    def __init__(self, scope: Construct, construct_id: str, resume: sqs.Queue) -> None:
        super().__init__(scope, construct_id)
        pattern = events.EventPattern(
            source=["aws.cloudformation"],
            detail_type=["CloudFormation Stack Status Change"],
            detail={"stack-id": [cdk.Stack.of(self).stack_id], "status-details": {"status": list(STATUSES)}},
        )
        message = events.RuleTargetInput.from_object({"type": "deployed", "id": events.EventField.event_id})
        events.Rule(self, "Rule", event_pattern=pattern, targets=[targets.SqsQueue(resume, message=message)])

"""Deploys: wakes the runs that wait for code when CloudFormation has updated the stack.

CloudFormation reports to the account's event bus, so this works for every way to deploy the stack, rollbacks
included, without a custom resource or another function.
"""

from __future__ import annotations

import aws_cdk as cdk
import jsii
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
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
        rule = events.Rule(self, "Rule", event_pattern=pattern, targets=[_ToQueue(resume)])
        resume.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[resume.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.rule_arn}},
            )
        )


@jsii.implements(events.IRuleTarget)
class _ToQueue:
    """The queue as a rule's target. The CDK's own opens a queue with a customer's key to rules of every account."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, rule: events.IRule, id: str | None = None) -> events.RuleTargetConfig:  # noqa: A002 - the CDK's
        message = events.RuleTargetInput.from_object({"type": "deployed", "id": events.EventField.event_id})
        return events.RuleTargetConfig(arn=self._queue.queue_arn, input=message)

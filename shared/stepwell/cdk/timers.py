"""The schedule group and the role of the engine's timers."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from stepwell.cdk.permissions import Resources
from stepwell.cdk.props import EngineProps

ACCOUNT_GROUP = "default"  # every account has it


class Timers(Construct):
    """The timers' resources; `group` is a name, `arn` matches any schedule in it."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps, resources: Resources) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        self.group = ACCOUNT_GROUP
        if props.schedule_group:
            self.group = scheduler.CfnScheduleGroup(self, "Group").ref
        self.arn = stack.format_arn(service="scheduler", resource="schedule", resource_name=f"{self.group}/*")
        sends = iam.PolicyDocument(statements=list(resources.statements("schedule", {})))
        # The role trusts the Scheduler for this account's schedules only.
        mine = {"StringEquals": {"aws:SourceAccount": stack.account}}
        service = iam.ServicePrincipal("scheduler.amazonaws.com", conditions=mine)
        self.role = iam.Role(self, "Role", assumed_by=service, inline_policies={"engine": sends})

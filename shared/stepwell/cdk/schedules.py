"""The schedules of the definitions' triggers, which send to the resume queue under the timers' role.

CloudFormation names them, and deletes a schedule together with its definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stepwell.cdk.timers import Timers


class Schedules(Construct):
    """Creates a schedule for each trigger in the packed workflows."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        timers: Timers,
        resume: sqs.Queue,
        packed: Sequence[Mapping[str, Any]],
    ) -> None:
        super().__init__(scope, construct_id)
        off = scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF")
        for schedule in packed:
            scheduler.CfnSchedule(
                self,
                schedule["name"],
                description=f"Stepwell: {schedule['name']}",
                group_name=timers.group,
                schedule_expression=schedule["expression"],
                schedule_expression_timezone=schedule["timezone"],
                flexible_time_window=off,
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=resume.queue_arn,
                    role_arn=timers.role.role_arn,
                    input=cdk.Stack.of(self).to_json_string(schedule["message"]),
                ),
            )

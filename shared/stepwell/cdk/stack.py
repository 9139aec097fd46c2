"""The stack: one engine and its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stepwell.cdk import context
from stepwell.cdk.engine import StepwellEngine


class StepwellStack(cdk.Stack):
    """An engine with these outputs.

    ApiUrl, TableName, BucketName, BusName, ResumeQueueUrl, DeadQueueUrl, WorkQueueUrls, WorkerNames, and, if they
    exist, NotificationsQueueUrl, DeadNotificationsQueueUrl, ApiKeySecret, AlarmsTo and DashboardName.
    """

    def __init__(self, scope: Construct, construct_id: str, asked: Mapping[str, Any]) -> None:
        """`asked` is the context. Raises BadProperty, BundlingError."""
        super().__init__(
            scope, construct_id, description="Stepwell: durable workflows", tags={"application": "stepwell"}
        )
        self.engine = engine = StepwellEngine(self, "Stepwell", context.read(self, asked))
        queues = engine.queues
        self._output("ApiUrl", engine.api_url, "The API")
        self._output("TableName", engine.table.table_name, "Runs, logs, events and waits")
        self._output("BucketName", engine.bucket.bucket_name, "Large values and snapshots")
        self._output("BusName", engine.bus.event_bus_name, "What happens to runs, as events")
        self._output("ResumeQueueUrl", queues.resume.queue_url, "Events and timers on their way")
        self._output("DeadQueueUrl", queues.dead.queue_url, "Messages that nobody could take")
        work = {name: queue.queue_url for name, queue in queues.work.items()}
        self._output("WorkQueueUrls", self.to_json_string(work), "By pool: runs that wait for a worker")
        workers = {name: function.function_name for name, function in engine.workers.items()}
        self._output("WorkerNames", self.to_json_string(workers), "By pool: the function that runs its steps")
        if queues.notifications and queues.dead_notifications:
            self._output("NotificationsQueueUrl", queues.notifications.queue_url, "Webhooks on their way to endpoints")
            self._output(
                "DeadNotificationsQueueUrl", queues.dead_notifications.queue_url, "Webhooks that no endpoint took"
            )
        if engine.api_key:
            self._output("ApiKeySecret", engine.api_key.secret_arn, "The secret with the API's key")
        if engine.alarms:
            self._output("AlarmsTo", engine.alarms.told or "none", "Who gets alarms by mail")
        if engine.dashboard:
            self._output("DashboardName", engine.dashboard.dashboard_name, "CloudWatch dashboard")

    def _output(self, name: str, value: str, description: str) -> None:
        cdk.CfnOutput(self, name, value=value, description=description)

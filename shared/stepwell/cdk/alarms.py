"""The alarms, each with its meaning and the action to take."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stepwell.cdk import metrics
from stepwell.cdk.functions import Handler
from stepwell.cdk.handlers import Handlers
from stepwell.cdk.props import EngineProps
from stepwell.cdk.queues import Queues

SLACK_SECONDS = 300  # tolerance for the age of a message
LATE_MS = 3_600_000  # of the stream, which forgets after 24 hours

DEAD_LETTERS = "Messages that nobody could take. Mend what refuses them; the sweeper sends them again for some hours."
UNTAKEN = "Webhooks that their endpoints did not take in a day, or refused. The sender's log says why; send them back."
SWEPT = {
    metrics.OVERDUE: "Runs waited longer than they should, and nothing had woken them. The sweeper has.",
    metrics.NO_PROGRESS: "Runs stood still, and nothing had woken them. The sweeper has.",
    metrics.NOTHING_WAKES: "Runs wait for nothing, by a defect. The sweeper drives them again; its log names them.",
    metrics.UNREADABLE: "Runs whose log cannot be read stand still. The sweeper's log names them.",
}
NO_SWEEPS = "The sweeper has not run for 15 minutes, so nothing finds what is lost. Enable its rule; see its throttles."
AGE = "The oldest message of {} is not taken: too few workers at once, or all of them fail."
ERRORS = "{} fails. Its log group says why."
REFUSED = "The API answers that it cannot: the table or a queue does not answer, or by a defect. Its log says why."
THROTTLES = "{} may not run as often at once as it is asked to: raise its limit or the account's."
PASSED_OVER = "Something in the table cannot be read, so subscribers are not told of it. The stream's log names it."
STREAM_LATE = "Subscribers, metrics and snapshots are an hour behind; after 24 hours they miss records."


class Alarms(Construct):
    """The alarms, and a topic that notifies the address, if there is one: `told`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        props: EngineProps,
        queues: Queues,
        handlers: Handlers,
        api: gateway.HttpApi,
    ) -> None:
        super().__init__(scope, construct_id)
        self.told = props.alarm_email
        self.topic = self._make_topic(props) if props.alarm_email else None
        self._on("DeadLetters", metrics.waiting(queues.dead), 0, DEAD_LETTERS)
        if queues.dead_notifications:
            self._on("DeadWebhooks", metrics.waiting(queues.dead_notifications), 0, UNTAKEN)
        for name, means in SWEPT.items():
            self._on(name, metrics.own(self, name, "Maximum"), 0, means)
        sweeps = handlers.sweeper.function.metric_invocations(period=metrics.PERIOD)
        self._on("NoSweeps", sweeps, 0, NO_SWEEPS, of=(3, 3), below=True)
        for name, queue, seconds in queues.taken_from():
            old_seconds = seconds + SLACK_SECONDS
            self._on(f"Age-{name.replace(' ', '-')}", metrics.age_seconds(queue), old_seconds, AGE.format(name))
        for handler in handlers:
            self._watch(handler)
        self._on("ServerErrors", api.metric_server_error(period=metrics.PERIOD), 0, REFUSED, of=(2, 3))
        late = handlers.stream.function.metric("IteratorAge", statistic="Maximum", period=metrics.PERIOD)
        self._on("StreamLate", late, LATE_MS, STREAM_LATE)
        self._on("PassedOver", metrics.own(self, metrics.PASSED_OVER, "Sum"), 0, PASSED_OVER)

    def _watch(self, handler: Handler) -> None:
        """Alarms on errors in two of three periods, because single failures are retried."""
        name, function = handler.node.id, handler.function
        self._on(f"Errors-{name}", function.metric_errors(period=metrics.PERIOD), 0, ERRORS.format(name), of=(2, 3))
        throttles = function.metric_throttles(period=metrics.PERIOD)
        self._on(f"Throttles-{name}", throttles, 0, THROTTLES.format(name), of=(2, 3))

    def _on(
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        means: str,
        *,
        of: tuple[int, int] = (1, 1),
        below: bool = False,
    ) -> None:
        """Adds an alarm for a metric above the threshold in `of[0]` of the last `of[1]` periods.

        With `below`, it rings when the metric is not above the threshold, or has no data: Lambda counts no zeros.
        """
        compare, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=metric,
            threshold=threshold,
            comparison_operator=compare.LESS_THAN_OR_EQUAL_TO_THRESHOLD if below else compare.GREATER_THAN_THRESHOLD,
            datapoints_to_alarm=of[0],
            evaluation_periods=of[1],
            treat_missing_data=missing.BREACHING if below else missing.NOT_BREACHING,
            alarm_description=means,
        )
        if self.topic:
            alarm.add_alarm_action(actions.SnsAction(self.topic))

    def _make_topic(self, props: EngineProps) -> sns.Topic:
        topic = sns.Topic(self, "Topic", master_key=props.kms_key, enforce_ssl=True)
        # A topic's own policy replaces the default policy, which allows alarms.
        mine = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions=mine,
            )
        )
        topic.add_subscription(subscriptions.EmailSubscription(props.alarm_email))
        return topic

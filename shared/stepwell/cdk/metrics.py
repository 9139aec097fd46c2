"""The metrics of an engine: its own, in the namespace Stepwell, and those of its queues."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

NAMESPACE = "Stepwell"
OVERDUE, NO_PROGRESS, UNREADABLE = "Overdue", "NoProgress", "Unreadable"  # found by the sweeper
NOTHING_WAKES = "NothingWakes"  # too
RUNS_STARTED, RUNS_ENDED, RUNS_FAILED = "RunsStarted", "RunsEnded", "RunsFailed"
PASSED_OVER = "PassedOver"  # by the stream
_SERVICE = "stepwell:service"
_API_NAME = 128  # characters
PERIOD = cdk.Duration.minutes(5)


def name_service(engine: Construct) -> None:
    """Names an engine for `service_of`, before it has parts."""
    stack = cdk.Stack.of(engine)
    is_first = all(one.type != _SERVICE for one in stack.node.metadata)
    name = stack.stack_name if is_first else f"{stack.stack_name}-{engine.node.id}"
    engine.node.set_context(_SERVICE, name)
    stack.node.add_metadata(_SERVICE, engine.node.id)


def service_of(scope: Construct) -> str:
    """The dimension that distinguishes engines of one account: the stack's name, and the id of all but its first."""
    name: str = scope.node.get_context(_SERVICE)
    return name


def api_name(scope: Construct, end: str = "") -> str:
    """Returns a name for an API of the engine, within API Gateway's limit: a stack's name alone may be that long."""
    return f"{service_of(scope)[: _API_NAME - len(end)]}{end}"


def own(scope: Construct, name: str, statistic: str) -> cloudwatch.Metric:
    """Returns a metric that the functions emit."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": service_of(scope)},
        statistic=statistic,
        period=PERIOD,
    )


def age_seconds(queue: sqs.Queue) -> cloudwatch.Metric:
    """Returns the age of the queue's oldest message."""
    return queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=PERIOD)


def waiting(queue: sqs.Queue) -> cloudwatch.Metric:
    """Returns the number of waiting messages."""
    return queue.metric_approximate_number_of_messages_visible(statistic="Maximum", period=PERIOD)

"""The dashboard: the engine's state on one page, with problems at the top."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from stepwell.cdk import metrics
from stepwell.cdk.api import Api
from stepwell.cdk.functions import Handler
from stepwell.cdk.queues import Queues

_WIDTH, _HEIGHT = 8, 6
_RUNS = (metrics.RUNS_STARTED, metrics.RUNS_ENDED, metrics.RUNS_FAILED)


def make_dashboard(
    scope: Construct, queues: Queues, table: dynamodb.Table, api: Api, handlers: Sequence[Handler]
) -> cloudwatch.Dashboard:
    """Three rows: problems; runs and queues; functions, table and API."""
    dashboard = cloudwatch.Dashboard(scope, "Dashboard")
    functions = [(handler.node.id, handler.function) for handler in handlers]
    taken_from = [(name, queue) for name, queue, _ in queues.taken_from()]
    dashboard.add_widgets(
        _graph("Dead letters", [metrics.waiting(queue) for queue in (queues.dead, queues.dead_notifications) if queue]),
        _graph("Overdue runs", [metrics.own(scope, metrics.OVERDUE, "Maximum")]),
        _graph("Oldest message, seconds", [metrics.age_seconds(queue).with_(label=name) for name, queue in taken_from]),
    )
    dashboard.add_widgets(
        _graph("Runs", [metrics.own(scope, name, "Sum") for name in _RUNS]),
        _graph("Messages waiting", [metrics.waiting(queue).with_(label=name) for name, queue in taken_from]),
        _graph("API", [
            api.http.metric_count(label="calls"), api.http.metric_client_error(label="4xx"),
            api.http.metric_server_error(label="5xx"), api.http.metric_latency(label="ms", statistic="p99"),
        ]),
    )  # fmt: skip
    dashboard.add_widgets(
        _graph("Functions: errors and throttles", [
            metric for name, function in functions
            for metric in (function.metric_errors(label=f"{name} errors"),
                           function.metric_throttles(label=f"{name} throttles"))
        ]),
        _graph("Functions: milliseconds, p99", [
            function.metric_duration(label=name, statistic="p99") for name, function in functions
        ]),
        _graph("Table: units", [
            table.metric_consumed_write_capacity_units(label="written"),
            table.metric_consumed_read_capacity_units(label="read"),
        ]),
    )  # fmt: skip
    return dashboard


def _graph(title: str, left: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(left), width=_WIDTH, height=_HEIGHT)

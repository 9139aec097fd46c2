"""Metrics of runs, counted from the stream and so from committed records only.

Each is emitted twice: for all workflows together, and for its own workflow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from stepwell.aws.observing import NAMESPACE
from stepwell.engine.records import Status
from stepwell.limits import SECOND_MS
from stepwell.runtime.notify.telling import Notice
from stepwell.values import dataclass

_COUNTED = {"run.started": "RunsStarted", "step.failed": "StepFailures", "step.retry_scheduled": "StepRetries"}
_FAILED = frozenset({Status.FAILED, Status.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Measure:
    """One value, with `status` as a dimension if it is set."""

    name: str
    workflow: str
    status: str = ""
    value: float = 1
    unit: MetricUnit = MetricUnit.Count


def measures_of(notice: Notice) -> Iterator[Measure]:
    """Yields the metrics of a notice, usually none."""
    run, kind = notice.run, notice.entry.type
    if kind in _COUNTED:
        yield Measure(_COUNTED[kind], run.workflow)
    if not (kind.startswith("run.") and notice.status.terminal and kind == f"run.{notice.status.value}"):
        return
    yield Measure("RunsEnded", run.workflow, notice.status.value)
    if run.started_ms:
        seconds = (notice.entry.at_ms - run.started_ms) / SECOND_MS
        yield Measure("RunSeconds", run.workflow, notice.status.value, seconds, MetricUnit.Seconds)
    if notice.status in _FAILED:
        yield Measure("RunsFailed", run.workflow)


def tell_runs(notices: Iterable[Notice]) -> None:
    """Prints one line for each workflow and status, in CloudWatch's embedded metric format."""
    groups: dict[tuple[str, str], list[Measure]] = defaultdict(list)
    for notice in notices:
        for measure in measures_of(notice):
            groups[measure.workflow, measure.status].append(measure)
    for (workflow, status), measures in groups.items():
        metrics = EphemeralMetrics(namespace=NAMESPACE)
        of_service = {"service": metrics.service} if metrics.service else {}
        metrics.add_dimensions(**of_service, workflow=workflow, **({"status": status} if status else {}))
        for measure in measures:
            metrics.add_metric(measure.name, measure.unit, measure.value)
        metrics.flush_metrics()

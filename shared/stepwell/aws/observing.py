"""Observability of a function: JSON logs with the ids of run, token and step; metrics; optional traces.

Logs contain no input, output, payload, header or key, except in the message of a step's own exception.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from stepwell.errors import EngineFault, NewerFormat
from stepwell.runtime.log.messages import DeadLetter, Deployed, GoOnAll, Message, Publish, Scheduled, from_json
from stepwell.runtime.steps.secrets import READ, masking

if TYPE_CHECKING:  # the whole engine, which some functions do without
    from stepwell.definition.graph import Json, Step
    from stepwell.engine.actions import Outcome
    from stepwell.engine.records import Record
    from stepwell.engine.retry import Policy
    from stepwell.runtime.log.logbook import Logbook
    from stepwell.runtime.log.standing import Standing
    from stepwell.runtime.steps.port import StepCall, Steps, Updated, WriteRecord

_logger = logging.getLogger("stepwell.worker")

NAMESPACE = "Stepwell"
# Below `warning` they log whole requests.
CHATTY = ("aws_lambda_powertools", "aws_xray_sdk", "boto3", "botocore", "s3transfer", "urllib3")

Handler: TypeAlias = Callable[[dict[str, Any], Any], Any]


class Observing:
    """The logs, metrics and traces of one function."""

    def __init__(self, log_level: str, dimensions: Mapping[str, str], *, trace: bool = False) -> None:
        """`dimensions` of the metrics are added to Powertools' own `service`."""
        self._formatter = _Formatter(utc=True, use_rfc3339=True, serialize_stacktrace=False)
        _log_through(self._formatter, log_level)
        self._metrics, self._adding = EphemeralMetrics(namespace=NAMESPACE), threading.Lock()
        self._metrics.set_default_dimensions(**dimensions)
        self._tracer = _tracer() if trace else None

    def invocation(self, handler: Handler) -> Handler:
        """Wraps a handler: adds the request id to each line, flushes metrics, and traces."""

        @wraps(handler)
        def observed(event: dict[str, Any], context: Any) -> Any:
            self._formatter.clear_state()
            self._formatter.append_keys(function_request_id=context.aws_request_id)
            try:
                return handler(event, context)
            finally:
                if self._metrics.metric_set:
                    self._metrics.flush_metrics()

        if self._tracer is None:
            return observed
        traced: Handler = self._tracer.capture_lambda_handler(observed, capture_response=False, capture_error=True)
        return traced

    def count(self, name: str, value: float = 1) -> None:
        self._add(name, MetricUnit.Count, value)

    def time(self, name: str, duration_ms: float) -> None:
        self._add(name, MetricUnit.Milliseconds, duration_ms)

    def _add(self, name: str, unit: MetricUnit, value: float) -> None:
        with self._adding:  # Powertools' own is for one thread
            self._metrics.add_metric(name, unit, value)

    @contextmanager
    def about(self, **ids: Json) -> Iterator[None]:
        """Adds these ids to each line that any thread logs meanwhile."""
        keys = {name: value for name, value in ids.items() if value not in {None, ""}}
        self._formatter.append_keys(**keys)
        if self._tracer is not None and "run_id" in keys:
            self._tracer.put_annotation("run_id", keys["run_id"])
        try:
            yield
        finally:
            self._formatter.remove_keys(keys)

    @contextmanager
    def about_step(self, **ids: Json) -> Iterator[None]:
        """Adds these ids to each line of this thread and of the step's: several steps may run at once."""
        self._formatter.thread_safe_append_keys(**ids)
        try:
            yield
        finally:
            self._formatter.thread_safe_remove_keys(ids)


def ids_of(body: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the ids of a message, without its content; only the run's id if this code cannot read it."""
    try:
        return _ids_of(from_json(body))
    except (EngineFault, NewerFormat):
        return {"run_id": str(body.get("run_id", ""))}


def _ids_of(message: Message) -> dict[str, Json]:
    if isinstance(message, DeadLetter):
        return _ids_of(message.wake)
    if isinstance(message, Publish):
        return {"event": message.event.topic.name, "event_id": message.event.id}
    if isinstance(message, Deployed):
        return {"deploy": message.deploy_id}
    if isinstance(message, GoOnAll):
        return {"workflow": message.workflow}
    if isinstance(message, Scheduled):
        return {"schedule": message.schedule}
    return {"run_id": message.run_id, "token": getattr(message, "token", None), "slot": getattr(message, "slot", None)}


class _Formatter(LambdaPowertoolsFormatter):
    """A formatter like Powertools', safe for threads that log while another one changes the ids. It shows no secret."""

    def format(self, record: logging.LogRecord) -> str:
        written = [json.dumps(one)[1:-1] for one in tuple(READ)]  # as they are in the line's JSON
        return masking(written)(super().format(record))

    def append_keys(self, **additional_keys: Any) -> None:
        self.log_format = {**self.log_format, **additional_keys}

    def remove_keys(self, keys: Iterable[str]) -> None:
        removed = set(keys)
        self.log_format = {name: value for name, value in self.log_format.items() if name not in removed}


class ObservedSteps:
    """The Steps port with metrics: how many steps ran, how long, and how many failed."""

    def __init__(self, steps: Steps, observing: Observing, now_ms: Callable[[], int]) -> None:
        self._steps, self._observing, self._now_ms = steps, observing, now_ms

    def policy(self, step: Step) -> Policy:
        return self._steps.policy(step)

    async def run(self, call: StepCall) -> Outcome:
        with self._observed(call) as outcomes:
            outcomes.append(await self._steps.run(call))
        return outcomes[0]

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        with self._observed(call) as outcomes:
            outcome = await self._steps.run_in_session(call, at, logbook)
            if outcome is not None:
                outcomes.append(outcome)
        return outcome

    @contextmanager
    def _observed(self, call: StepCall) -> Iterator[list[Outcome]]:
        """Around an attempt, whose outcome goes into the list; none is counted that did not run."""
        began_ms = self._now_ms()
        outcomes: list[Outcome] = []
        ids = {"workflow": call.workflow, "token": call.token, "step": call.node, "attempt": call.attempt}
        with self._observing.about_step(**ids):
            yield outcomes
            for outcome in outcomes:
                _logger.debug("the step ended, %s", "well" if outcome.failure is None else outcome.failure.type)
        for outcome in outcomes:
            self._observing.time("StepDuration", self._now_ms() - began_ms)
            self._observing.count("Steps")
            self._observing.count("StepFailures", 0 if outcome.failure is None else 1)
            self._observing.count("StepRetries", 1 if call.attempt > 1 else 0)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        with self._observing.about(workflow=at.run.workflow):
            return await self._steps.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        with self._observing.about(workflow=at.run.workflow):
            return await self._steps.answered(at, logbook, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        with self._observing.about(workflow=at.run.workflow):
            return await self._steps.updated(at, logbook, asked, write)


def _log_through(formatter: logging.Formatter, log_level: str) -> None:
    """Makes all loggers of the process, including the users', write one line of JSON per record."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _tracer() -> Any:
    from aws_lambda_powertools import Tracer  # noqa: PLC0415 - half a second that only a traced function pays

    return Tracer()

"""The start of a function, once per process: reads the environment, sets up logs, assembles the parts.

This happens while Lambda imports the handler, when a function has a full CPU whatever its memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from stepwell.aws.batches import Delivery
from stepwell.aws.clients import Clients, open_clients
from stepwell.aws.lease import Lease
from stepwell.aws.observing import ObservedSteps, Observing
from stepwell.aws.wiring import Deployed, open_aws
from stepwell.collector import relax_collector
from stepwell.errors import PortError, UserError
from stepwell.limits import DELIVERIES
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.dispatch import put_off
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Clock, Lane
from stepwell.runtime.steps.port import Steps
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import Deployment, read_deployment
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.queues")

RESERVE_MS = 5_000  # of an invocation's time, reserved for the record, effects and wake after a step


class Context(Protocol):
    """Lambda's context of an invocation."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The Budget of an invocation: its remaining time, less a reserve."""

    context: Context
    lease: Lease | None = None  # of the message in progress; None: nobody else can receive it
    reserve_ms: int = RESERVE_MS
    deliveries: int = 1  # of the message in progress
    began_with_ms: int | None = None  # the time that was left when the invocation began; None: not known

    def left_ms(self) -> int:
        return max(self.context.get_remaining_time_in_millis() - self.reserve_ms, 0)

    def whole_ms(self) -> int | None:
        return self.began_with_ms

    def holds(self) -> bool:
        return self.lease is None or self.lease.holds()

    def is_first(self) -> bool:
        return self.deliveries == 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that is ready for invocations."""

    aws: Deployed
    observing: Observing

    @property
    def parts(self) -> Assembly:
        return self.aws.parts

    @property
    def deployment(self) -> Deployment:
        return self.aws.deployment

    @contextmanager
    def putting_off(self, lane: Lane, delivery: Delivery) -> Iterator[None]:
        """Wraps a delivery's work: a service that does not answer does not count as the last delivery.

        Otherwise a short outage would send healthy messages to the dead-letter queue.
        """
        try:
            yield
        except PortError:
            is_last = delivery.count >= DELIVERIES
            if not is_last or not run_now(put_off(self.parts, lane, delivery.message())):
                raise
            _logger.exception("message %s is put off", delivery.id)


def open_entry(root: Path) -> Entry:
    """Starts a function without user code. `root` is its package. Raises UserError, EngineFault for a bad stack."""
    deployment = _deployment()
    observing = Observing(deployment.log_level, {}, trace=deployment.trace)
    aws = open_aws(deployment, root)
    _warm(aws)
    relax_collector()
    return Entry(aws, observing)


def open_worker(root: Path, steps: Callable[[Deployment, Clients, Clock], Steps]) -> Entry:
    """Starts a function with user code, for the steps of the environment's pool."""
    deployment, clients, clock = _deployment(), open_clients(), RealClock()
    observing = Observing(deployment.log_level, {"pool": deployment.pool}, trace=deployment.trace)
    observed = ObservedSteps(steps(deployment, clients, clock), observing, clock.now_ms)
    aws = open_aws(deployment, root, steps=observed, pool=deployment.pool, clients=clients, clock=clock)
    _warm(aws)
    relax_collector()
    return Entry(aws, observing)


def _deployment() -> Deployment:
    deployment = read_deployment()
    missing = [name for name, value in (
        ("STEPWELL_TABLE", deployment.table),
        ("STEPWELL_BUCKET", deployment.bucket),
        ("STEPWELL_QUEUES", deployment.work.get("default")),
    ) if not value]  # fmt: skip
    if missing:
        raise UserError(f"the function's environment lacks {', '.join(missing)}", code="bad_setting",
                        hint="the stack sets it: deploy again")  # fmt: skip
    return deployment


def _warm(aws: Deployed) -> None:
    """Creates the clients that every invocation needs; others are created on first use."""
    aws.clients.dynamodb()
    aws.clients.sqs()

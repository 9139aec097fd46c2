"""Assembles the AWS adapters of a deployed function from its environment.

A function gets only what it needs: clients are created on first use, and only the worker has steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from stepwell.aws.calls import jitter
from stepwell.aws.clients import Clients, open_clients
from stepwell.aws.dead_letters import AwsDeadQueue
from stepwell.aws.packed import read_packed
from stepwell.aws.queues import Queues
from stepwell.aws.run_logs import CloudWatchLogs
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.s3_snapshots import S3Snapshots
from stepwell.aws.scheduler_schedules import SchedulerSchedules
from stepwell.aws.scheduler_timers import SchedulerTimers, Schedules
from stepwell.aws.secrets import links_of
from stepwell.aws.sqs_queue import SqsQueue
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy
from stepwell.errors import EngineFault, UserError
from stepwell.limits import COPIES_AT_ONCE, SWEEPS_AT_ONCE
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.folder.unpack import unpack, unpack_limits, unpack_prices
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.sharing import Sharing
from stepwell.runtime.ports import Clock, Ports
from stepwell.runtime.starts.ids import new_id
from stepwell.runtime.steps.port import StepCall, Steps, Updated, WriteRecord
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import Deployment
from stepwell.values import dataclass


class NoSteps:
    """The steps of a function without user code. `ask` forwards queries to a worker, if there is one."""

    def __init__(self, ask: Callable[[str, str], Json] | None = None) -> None:
        self._ask = ask

    def policy(self, step: Step) -> Policy:
        raise EngineFault(f"only a worker runs steps, such as {step.run}")

    async def run(self, call: StepCall) -> Outcome:
        raise EngineFault(f"only a worker runs steps, such as {call.run}")

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        raise EngineFault(f"only a worker runs steps, such as {call.run}")

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        raise EngineFault(f"only a worker runs functions, such as {at.graph.code}")

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        raise EngineFault(f"only a worker runs functions, such as {at.graph.code}")

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        if self._ask is not None:
            return self._ask(at.run_id, query)
        message = f"this API has no worker that can answer queries of {at.run.workflow}"
        hint = "put the values into ctx.state, which GET /runs/{id} shows"
        raise UserError(message, code="queries_not_here", hint=hint)


@dataclass(frozen=True, slots=True)
class Deployed:
    """All parts of one deployed function."""

    parts: Assembly
    store: DynamoStore
    clients: Clients
    deployment: Deployment


def open_aws(
    deployment: Deployment,
    root: Path,
    *,
    steps: Steps | None = None,
    pool: str | None = None,
    clients: Clients | None = None,
    clock: Clock | None = None,
) -> Deployed:
    """Assembles the parts. `root` is the function's package with the packed workflows.

    Only the worker passes `steps` and `pool`.
    """
    clients, clock = clients or open_clients(), clock or RealClock()
    queues = Queues(deployment.resume, deployment.work)
    blobs = S3Blobs(deployment.bucket, clients.s3)
    table = Table(
        deployment.table, clients.dynamodb, blobs, compresses=deployment.compresses, now_ms=clock.now_ms
    )  # fmt: skip
    store = DynamoStore(table)
    queue = SqsQueue(queues, clients.sqs, clock)
    schedules = Schedules(deployment.schedule_group, deployment.schedule_role, queues)
    timers = SchedulerTimers(schedules, clients.scheduler, queue, clock)
    packed = read_packed(root)
    catalog = Catalog(
        partial(compile_document, trusted=True), unpack(packed), unpack_limits(packed), unpack_prices(packed)
    )
    catalog.functions = packed.get("functions", {})
    parts = assemble(
        Ports(store, store, store, store, store, store, queue, timers, blobs, clock),
        catalog,
        steps or NoSteps(_asking(deployment, clients)),
        compile_expression=compile_expression,
        new_id=new_id,
        jitter=jitter,
        max_steps=deployment.max_steps,
        lane=deployment.lane,
        sweeps_at_once=SWEEPS_AT_ONCE,
        copies_at_once=COPIES_AT_ONCE,
        pool=pool,
        sharing=Sharing(steps=deployment.steps_per_invocation),
        schedules=SchedulerSchedules(schedules, clients.scheduler, clock),
        links=links_of(deployment, clients, clock),
        files=S3Snapshots(deployment.bucket, clients.s3),
        dead=AwsDeadQueue(deployment.dead_queue, clients.sqs, queue) if deployment.dead_queue else None,
        run_logs=CloudWatchLogs(deployment.log_groups, clients.logs),
    )
    return Deployed(parts, store, clients, deployment)


def _asking(deployment: Deployment, clients: Clients) -> Callable[[str, str], Json] | None:
    if not deployment.worker:
        return None
    from stepwell.aws.invoker import LambdaInvoker  # noqa: PLC0415 - only in the API
    from stepwell.aws.queries import ask  # noqa: PLC0415

    return partial(ask, LambdaInvoker(clients.lambda_), deployment.worker)

"""The engine's Lambda functions: their settings, event sources and environment."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stepwell.cdk import metrics
from stepwell.cdk.called import arns_of, tell_ungranted
from stepwell.cdk.functions import (
    COORDINATOR_BATCH,
    LEAST_CONCURRENCY,
    QUERIES_AT_ONCE,
    SWEEP_MINUTES,
    Handler,
    Place,
    Shape,
)
from stepwell.cdk.live import Live
from stepwell.cdk.packaging import bundling
from stepwell.cdk.packaging.locking import OTEL, TRACING
from stepwell.cdk.permissions import OF_BATCHES, Resources
from stepwell.cdk.props import DEFAULT_POOL, EngineProps, Pool
from stepwell.cdk.queues import COORDINATOR_SECONDS, SENDER_SECONDS, Queues
from stepwell.cdk.storage import Storage
from stepwell.cdk.timers import Timers
from stepwell.cdk.webhooks import Webhooks
from stepwell.settings import HASH_SEED

_QUICK = Shape(memory_mb=512, timeout_seconds=10, snapped=True)
_API = Shape(
    memory_mb=1024, timeout_seconds=29, snapped=True
)  # callers wait up to 25 seconds for a run's end, the gateway 30
_STREAM = Shape(memory_mb=1024, timeout_seconds=300)  # a snapshot of a long run takes half a minute
_SENDERS = 20  # at once, so that slow endpoints do not use up the account's concurrency
_SWEEPER = Shape(memory_mb=512, timeout_seconds=SWEEP_MINUTES * 60 - 10)


@dataclass(frozen=True, slots=True)
class Packages:
    """The code of the workers and of the other functions, and the packed workflows."""

    engine: lambda_.Code
    worker: lambda_.Code
    packed: Mapping[str, Any]
    report: str = ""


class Handlers(Construct):
    """The engine's functions. `workers` are by pool; `webhooks`, `live`, `sender`, `authorizer` exist only if needed.

    `schedules` are those of the definitions' triggers.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        props: EngineProps,
        storage: Storage,
        queues: Queues,
        timers: Timers,
        resources: Resources,
        api_key: secretsmanager.Secret | None,
        linking: Mapping[str, str],
        webhooks: Webhooks,
        live: Live | None,
    ) -> None:
        """`linking` is the environment of functions that create links."""
        super().__init__(scope, construct_id)
        self._queues, self._props, self._linking, self._live = queues, props, linking, live
        self._place = Place(props, resources, self._environment(storage, timers), self._security_group(),
                            storage.bucket, timers.group)  # fmt: skip
        with tempfile.TemporaryDirectory() as into:  # a function copies its package into the assembly on creation
            self._code = _packages(props, Path(into))
            if self._code.report:
                cdk.Annotations.of(self).add_info(self._code.report)
            if props.platform == "lambda":  # `stepwell dev --aws` looks what its emulator has
                webhooks.sources.tell_unread(self)
                webhooks.out.tell_unread(self)
            self.schedules: Sequence[Mapping[str, Any]] = self._code.packed["schedules"]
            self.webhooks = self._make_webhooks(webhooks) if webhooks.sources else None
            self.coordinator = self._make_coordinator()
            self._calls = self._code.packed["calls"]
            self.workers = {name: self._make_worker(name, pool) for name, pool in props.pools.items()}
            self.api = self._make_api()
            self.stream = self._make_stream(storage.stream_arn)
            self.live = self._make_live(live) if live else None
            self.sender = self._make_sender(webhooks)
            dead = {"STEPWELL_DEAD_QUEUE": queues.dead.queue_url}
            self.sweeper = self._handler("sweeper", replace(_SWEEPER, environment=dead))
            self.sweeper.run_every(SWEEP_MINUTES)
            self.authorizer = self._make_authorizer(api_key) if api_key else None

    def __iter__(self) -> Iterator[Handler]:
        """Returns all functions."""
        handlers = (self.api, self.webhooks, self.coordinator, *self.workers.values(), self.stream, self.live,
                    self.sender, self.sweeper, self.authorizer)  # fmt: skip
        return (handler for handler in handlers if handler)

    def _handler(self, handler: str, shape: Shape, more: Mapping[str, Sequence[str]] | None = None) -> Handler:
        return Handler(self, handler, handler, self._place, self._code.engine, shape, more)

    def _environment(self, storage: Storage, timers: Timers) -> Mapping[str, str]:
        stack = cdk.Stack.of(self)
        return {
            "STEPWELL_TABLE": storage.table.table_name,
            "STEPWELL_BUCKET": storage.bucket.bucket_name,
            "STEPWELL_BUS": storage.bus.event_bus_name,
            "STEPWELL_QUEUES": stack.to_json_string(self._queues.places()),
            "STEPWELL_SCHEDULE_GROUP": timers.group,
            "STEPWELL_SCHEDULE_ROLE": timers.role.role_arn,
            "STEPWELL_EVENTS": self._props.events,
            "STEPWELL_MAX_STEPS": str(self._props.max_steps),
            "STEPWELL_LOG_LEVEL": self._props.log_level,
            "STEPWELL_AWS_CLIENT": self._props.aws_client,
            "STEPWELL_LANES": "on" if self._props.lanes else "off",
            "POWERTOOLS_SERVICE_NAME": metrics.service_of(self),
            "POWERTOOLS_METRICS_NAMESPACE": metrics.NAMESPACE,
            **({"STEPWELL_TRACE": "1"} if self._props.tracing else {}),
            **({"STEPWELL_COMPRESS": "1"} if self._props.compress else {}),
        }

    def _security_group(self) -> ec2.ISecurityGroup | None:
        """Creates one security group for all functions, without inbound rules."""
        vpc = self._props.vpc
        return (
            ec2.SecurityGroup(self, "SecurityGroup", vpc=vpc, description="The functions of Stepwell") if vpc else None
        )

    def _make_api(self) -> Handler:
        """Lets the API call the default pool's worker for queries, and read what the code of runs logs."""
        worker, groups = self.workers[DEFAULT_POOL].called, [one.logs for one in self.workers.values()]
        environment = {
            "STEPWELL_LOG_GROUPS": ",".join(one.log_group_name for one in groups),
            **self._linking,
            "STEPWELL_WORKER": worker.function_name,
            "STEPWELL_DEAD_QUEUE": self._queues.dead.queue_url,
            **(self._live.api_environment if self._live else {}),
            **self._console(),
        }
        named = {"worker": [worker.function_arn], "worker_logs": [one.log_group_arn for one in groups]}
        return self._handler("api", replace(_API, environment=environment), named)

    def _console(self) -> Mapping[str, str]:
        """Has the API serve the console, where people can sign in."""
        props = self._props
        if not props.console_client_id:
            return {}
        origins = [f"https://{urlsplit(props.jwt_issuer).netloc}", *props.console_login_urls]
        login = {"issuer": props.jwt_issuer, "client_id": props.console_client_id,
                 "audience": props.jwt_audience[0], "origins": origins}  # fmt: skip
        return {"STEPWELL_CONSOLE": json.dumps(login)}

    def _make_webhooks(self, webhooks: Webhooks) -> Handler:
        stack, sources = cdk.Stack.of(self), webhooks.sources
        named = {"webhook_secrets": sources.secret_arns(stack), "webhook_parameters": sources.parameter_arns(stack)}
        return self._handler("webhooks", _QUICK, named)

    def _make_stream(self, stream_arn: str) -> Handler:
        notifications = self._queues.notifications
        environment = {**({"STEPWELL_NOTIFICATIONS": notifications.queue_url} if notifications else {}),
                **(self._live.environment if self._live else {})}  # fmt: skip
        if endpoint := self._props.otel_endpoint:
            environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": metrics.service_of(self)}
        handler = self._handler("stream", replace(_STREAM, environment=environment))
        handler.follow(stream_arn, self._queues.dead)
        return handler

    def _make_live(self, live: Live) -> Handler:
        return self._handler("live", replace(_QUICK, environment={**self._linking, **live.environment}))

    def _make_sender(self, webhooks: Webhooks) -> Handler | None:
        """Creates the sender, with one delivery per invocation so that a slow endpoint delays no others."""
        notifications, dead = self._queues.notifications, self._queues.dead_notifications
        if not (notifications and dead):
            return None
        stack, out = cdk.Stack.of(self), webhooks.out
        environment = {
            "STEPWELL_NOTIFICATIONS": notifications.queue_url,
            "STEPWELL_DEAD_NOTIFICATIONS": dead.queue_url,
            **self._hosts(),
        }
        shape = Shape(memory_mb=512, timeout_seconds=SENDER_SECONDS, recursive=True, environment=environment)
        named = {"endpoint_secrets": out.secret_arns(stack), "endpoint_parameters": out.parameter_arns(stack)}
        handler = self._handler("sender", shape, named)
        handler.take_from("Letters", notifications, batch=1, concurrency=_SENDERS)
        return handler

    def _make_coordinator(self) -> Handler:
        """Creates the coordinator; its limit covers events and timers, plus the minimum for each dead-letter queue."""
        limit = self._props.coordinator_concurrency
        together = limit + LEAST_CONCURRENCY * len(self._queues.work_dead) if limit else None
        shape = Shape(memory_mb=1024, timeout_seconds=COORDINATOR_SECONDS, concurrency=together, recursive=True)
        handler = self._handler("coordinator", shape)
        handler.take_from("Resume", self._queues.resume, batch=COORDINATOR_BATCH, concurrency=limit)
        for name, queue in self._queues.work_dead.items():
            handler.take_from(f"WorkDead-{name}", queue, batch=1, concurrency=LEAST_CONCURRENCY)
        return handler

    def _make_worker(self, name: str, pool: Pool) -> Handler:
        """Creates a worker, with one message per invocation because a batch is as slow as its slowest step."""
        asked = QUERIES_AT_ONCE if name == DEFAULT_POOL else 0
        shape = Shape(
            memory_mb=pool.memory_mb,
            timeout_seconds=pool.timeout_seconds,
            concurrency=pool.concurrency and pool.concurrency + asked,
            snapped=True,
            recursive=True,
            environment={
                **HASH_SEED,
                **pool.environment,
                **self._hosts(),
                **self._linking,
                "STEPWELL_POOL": name,
                "STEPWELL_STEPS_PER_INVOCATION": str(pool.steps_per_invocation),
            },
        )
        queue = self._queues.work[name]
        calls = self._calls.get(name, {})
        own = {"own_work": [queue.queue_arn], **arns_of(calls, cdk.Stack.of(self))}
        if name != DEFAULT_POOL:
            own |= {row: [] for row in OF_BATCHES}  # batches are runs of the default pool
        handler = Handler(
            self, f"worker-{name}", "worker", self._place, self._code.worker, shape, own, pool.permissions
        )
        handler.take_from("Work", queue, batch=1, concurrency=pool.concurrency)
        tell_ungranted(handler, name, calls)
        return handler

    def _hosts(self) -> Mapping[str, str]:
        hosts = self._props.http_hosts
        return {"STEPWELL_HTTP_HOSTS": ",".join(hosts)} if hosts else {}

    def _make_authorizer(self, api_key: secretsmanager.Secret) -> Handler:
        shape = Shape(memory_mb=512, timeout_seconds=10, environment={"STEPWELL_API_KEY_SECRET": api_key.secret_arn})
        return self._handler("authorizer", shape, {"api_key": [api_key.secret_arn]})


def _extras(props: EngineProps) -> list[str]:
    """Returns the extras of Stepwell that the functions need."""
    return [*([TRACING] if props.tracing else []), *([OTEL] if props.otel_endpoint else [])]


def _packages(props: EngineProps, into: Path) -> Packages:
    if not props.bundle:
        code = lambda_.Code.from_inline("# made without its code")
        definitions = bundling.pack_definitions(props.project.folder, tuple(props.pools), tuple(props.http_hosts))
        return Packages(code, code, definitions)
    bundles = bundling.build(
        props.project,
        into,
        pools=props.pools,
        platform=props.platform,
        python=props.python_version,
        asked=_extras(props),
        http_hosts=props.http_hosts,
        has_console=bool(props.console_client_id),
    )
    engine, worker = (lambda_.Code.from_asset(str(folder)) for folder in (bundles.engine, bundles.worker))
    return Packages(engine, worker, bundles.packed, bundles.report())

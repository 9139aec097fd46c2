"""The properties of `StepwellEngine`, checked on creation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs

from stepwell.cdk.errors import BadProperty
from stepwell.cors import cors_origins
from stepwell.errors import UserError
from stepwell.project import PYTHONS, Project, project_of

WEBHOOKS_FILES = ("webhooks.yaml", "webhooks.yml")
DEFAULT_POOL = "default"
AUTHS = ("iam", "jwt", "api_key")
LOG_LEVELS = ("debug", "info", "warning", "error")
PLATFORMS = ("lambda", "local")
AWS_CLIENTS = ("thin", "boto3")
EVENTS = ("all", "runs", "none")
MAX_STEPS = 100_000
MAX_STEPS_PER_INVOCATION = 10  # branches that one message brings
MAX_RATE = 10_000  # API Gateway's initial quota of an account
_TAKEN = ("STEPWELL_", "POWERTOOLS_", "AWS_")
_OF_LAMBDA = ("LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR")
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A worker: a Lambda function with its own queue, for the steps whose `pool:` names it.

    memory_mb: also decides the processor: 1,769 MB are one.
    timeout_seconds: how long one invocation may last, and so a step: one with a longer limit gets what there is.
    concurrency: the most workers at once, reserved from the account's own limit. None: no limit but the account's.
        (An account that is new may run ten functions at once and can reserve none.) The default pool reserves two more,
        so that the API's queries of runs are answered while all workers are busy.
    steps_per_invocation: how many steps of a fork one invocation runs at once, in threads; for steps that wait for the
        network, and whose code is thread-safe.
    permissions: what the steps may do, beside what the engine may. A grant to `engine.workers[name]` does the same.
    environment: variables of the steps.
    """

    memory_mb: int = 1024
    timeout_seconds: int = 900
    concurrency: int | None = None
    steps_per_invocation: int = 1
    permissions: Sequence[iam.PolicyStatement] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _within("memory_mb", self.memory_mb, 128, 10_240)
        _within("timeout_seconds", self.timeout_seconds, 30, 900)
        if self.concurrency is not None:
            _within("concurrency", self.concurrency, 2, 1000)
        _within("steps_per_invocation", self.steps_per_invocation, 1, MAX_STEPS_PER_INVOCATION)
        taken = sorted(name for name in self.environment if name.startswith(_TAKEN) or name in _OF_LAMBDA)
        if taken:
            raise BadProperty(f"environment: {', '.join(taken)} belong to Stepwell, Powertools and AWS")
        for name in self.environment:
            if not _VARIABLE.fullmatch(name):
                means = "a name that Lambda takes: a letter, then one or more letters, digits and _"
                raise BadProperty(f"environment: {name!r} is not {means}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProps:
    """The properties of an engine. Raises BadProperty.

    folder: the workflow folder: definitions, Python modules, `webhooks.yaml`. Webhooks have a route only where that
        file names sources, and a sender only where it names endpoints. The project around it (`[tool.stepwell]` in a
        pyproject.toml at or above the folder) gives the packages beside it, and the lock file of its dependencies.
    python: the version of the functions' Python, `3.13`; default: the project's, else the one that runs the CDK app.
    pools: the workers by name; `default` is among them. Some eight fit, because each function has the addresses of all
        queues in its environment, of which Lambda takes 4 KB.
    auth: who may call the API: `iam` signs with SigV4; `jwt` shows a token of `jwt_issuer` for one of `jwt_audience`;
        `api_key` shows, as `x-api-key`, a key that the stack makes and keeps in Secrets Manager.
    jwt_issuer: with `jwt`: the issuer of the tokens, exactly as in their `iss`: `https://login.example.com/`.
    jwt_audience: with `jwt`: the audiences; a token must name one of them.
    removal_policy: what happens to the table, the bucket, the queues, the secrets and the logs when the stack is
        deleted. RETAIN also protects the table from deletion; DESTROY deletes all data.
    auto_delete_objects: with DESTROY, empties the bucket first, by a function of the CDK's.
    kms_key: a key for the table, the bucket, the queues, the bus, the logs, the alarms' topic and the API key; they
        are encrypted under keys of AWS without it. A key of the same app is opened to the services that need it.
    former_kms_keys: keys that `kms_key` once was. Large values, messages and backups stay under the key that was there
        when they were written: name it here, and keep it, or runs fail that need them.
    alarms: whether the stack has alarms and a dashboard.
    alarm_email: the address that gets the alarms, once its owner has confirmed the subscription.
    log_retention: how long CloudWatch keeps the logs of the functions and of the API.
    log_level: the lowest level that the functions log: `debug`, `info`, `warning` or `error`.
    vpc, vpc_subnets: where the functions run. They need a way out: a NAT, or endpoints of DynamoDB, S3, SQS,
        EventBridge and its Scheduler, Secrets Manager, CloudWatch Logs and Lambda; of SSM and X-Ray if you use them.
        `live`, HTTP steps and outgoing webhooks need a NAT.
    rate_per_second: how many calls the API takes in a second, and as many at once; more get 429.
    open_rate_per_second: how many calls of each route that asks for no signature of the API (webhooks, callbacks,
        approval links) may come in a second, and as many at once; more get 429. Those that sign have a rate of their
        own, so a flood of the others does not keep them out.
    cors_origins: the web pages that may call the API from a browser: `https://shop.example.com`; `*` for any. The same
        property of `[tool.stepwell]` lets them call `stepwell dev`.
    max_steps: the most records of one run, which bounds every loop.
    coordinator_concurrency: the most coordinators at once, as a pool's `concurrency`.
    tracing: whether the functions send traces to X-Ray.
    aws_client: what the functions call AWS with: `thin`, Stepwell's own client where it can serve, or `boto3`.
    compress: compresses the records of runs where that takes fewer write units, from about 1 KB on. 0.1 cannot read
        them, so set it once you will not roll back to 0.1.
    lanes: writes the branches of a fork that one message brings together, in fewer write units. 0.1 cannot read such
        forks, so turn it off for the deploy over 0.1, and before you roll back to it.
    snap_start: the API, the webhooks and the workers start from a snapshot of themselves, in tenths of a second. AWS
        charges for keeping and restoring it, and needs Python 3.12 or later. The modules of your steps are in the
        snapshot: a connection or a random number that they make when they are imported is the same in every copy.
    otel_endpoint: where traces of runs are sent by OpenTelemetry's protocol over HTTP: `https://collector.example.com`.
    events: what the event bus gets: `all`; `runs`, all but successful steps and branches; `none`. An event costs about
        as much as the write of a step.
    http_hosts: the hosts that `run: http:` steps may call, and that endpoints of webhooks may be at: `api.stripe.com`,
        `*.example.com`, `api.example.com:8443`. A folder that calls another one is not deployed.
    public_url: where others reach the API, for the links of callbacks and approvals, if not at API Gateway's own URL.
    live: a WebSocket API on which the console sees changes as they are committed, and a table of who watches. Without
        it, the console asks every few seconds.
    console_client_id: with `jwt`: the API serves the console, and its users sign in at `jwt_issuer`, where this is the
        id of the console as a public client. Without it, `stepwell console` serves it on your machine.
    console_login_urls: where the issuer gives tokens, if not at its own host: `https://acme.auth.example.com`.
    schedule_group: timers in a group of their own, deleted with the stack; else in the account's default group. After a
        change, `stepwell recover --all` sets them and your schedules again; those in the default group stay there, too.
    platform: `lambda` is arm64 on AWS; `local` is this machine and this Python, for an emulator.
    bundle: False leaves the functions without their code, for a look at the template.
    """

    folder: Path
    python: str = ""
    pools: Mapping[str, Pool] = field(default_factory=lambda: {DEFAULT_POOL: Pool()})
    auth: str = "iam"
    jwt_issuer: str = ""
    jwt_audience: Sequence[str] = ()
    removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN
    auto_delete_objects: bool = True
    kms_key: kms.IKey | None = None
    former_kms_keys: Sequence[kms.IKey] = ()
    alarms: bool = True
    alarm_email: str = ""
    log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH
    log_level: str = "info"
    vpc: ec2.IVpc | None = None
    vpc_subnets: ec2.SubnetSelection | None = None
    rate_per_second: int = 1_000
    open_rate_per_second: int = 100
    cors_origins: Sequence[str] = ()
    max_steps: int = MAX_STEPS
    coordinator_concurrency: int | None = None
    tracing: bool = False
    aws_client: str = AWS_CLIENTS[0]
    compress: bool = False
    lanes: bool = True
    snap_start: bool = False
    otel_endpoint: str = ""
    events: str = "runs"
    http_hosts: Sequence[str] = ()
    public_url: str = ""
    live: bool = False
    console_client_id: str = ""
    console_login_urls: Sequence[str] = ()
    schedule_group: bool = True
    platform: str = "lambda"
    bundle: bool = True

    def __post_init__(self) -> None:
        _one_of("auth", self.auth, AUTHS)
        _one_of("log_level", self.log_level, LOG_LEVELS)
        _one_of("aws_client", self.aws_client, AWS_CLIENTS)
        _one_of("platform", self.platform, PLATFORMS)
        _one_of("events", self.events, EVENTS)
        _within("rate_per_second", self.rate_per_second, 1, MAX_RATE)
        _within("open_rate_per_second", self.open_rate_per_second, 1, MAX_RATE)
        _within("max_steps", self.max_steps, 1, MAX_STEPS)
        if self.coordinator_concurrency is not None:
            _within("coordinator_concurrency", self.coordinator_concurrency, 2, 1000)
        if not self.folder.is_dir():
            raise BadProperty(f"folder: there is no folder {self.folder}")
        if self.python:
            _one_of("python", self.python, PYTHONS)
        if self.snap_start and self.python_version == "3.11":
            raise BadProperty("snap_start: Lambda has it for Python 3.12 and later; set python")
        self._check_pools()
        self._check_auth()
        self._check_hosts()
        self._check_origins()
        if self.public_url and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*[^\s?#/])?", self.public_url):
            raise BadProperty(f"public_url: {self.public_url!r} is not https://HOST, without a trailing slash")
        if self.otel_endpoint and not re.fullmatch(r"https?://[^\s?#]+", self.otel_endpoint):
            raise BadProperty(f"otel_endpoint: {self.otel_endpoint!r} is not https://HOST[/PATH]")

    def _check_pools(self) -> None:
        if DEFAULT_POOL not in self.pools:
            raise BadProperty(f"pools: {', '.join(self.pools)}: `{DEFAULT_POOL}` must be among them")
        for name in self.pools:
            if not _POOL_NAME.fullmatch(name):
                raise BadProperty(f"pools: {name!r} is not a valid name: letters, digits, - and _, 64 at most")

    def _check_auth(self) -> None:
        if self.auth == "jwt" and not (self.jwt_issuer.startswith("https://") and self.jwt_audience):
            raise BadProperty("auth: jwt needs jwt_issuer, an https:// URL, and jwt_audience")
        if self.auth != "jwt" and (self.jwt_issuer or self.jwt_audience):
            raise BadProperty(f"auth: jwt_issuer and jwt_audience are for jwt, not for {self.auth}")
        if self.auth != "jwt" and (self.console_client_id or self.console_login_urls):
            raise BadProperty(f"console_client_id: people sign in with auth jwt, not with {self.auth}")
        for url in self.console_login_urls:
            if not re.fullmatch(r"https://[^\s/?#;,]+", url):
                raise BadProperty(f"console_login_urls: {url!r} is not https://HOST")

    def _check_hosts(self) -> None:
        """Checks the host list; `http://` entries are for local use only."""
        for entry in self.http_hosts:
            if self.platform == "lambda" and (entry == "*" or "://" in entry):
                raise BadProperty(f"http_hosts: {entry!r}: use host names such as api.example.com or *.example.com")

    def _check_origins(self) -> None:
        try:
            cors_origins({"cors_origins": self.cors_origins})
        except UserError as error:
            raise BadProperty(error.message) from error

    @property
    def project(self) -> Project:
        """The project around the folder."""
        return project_of(self.folder)

    @property
    def python_version(self) -> str:
        """The version of the functions' Python. Raises BadProperty if Lambda has no such Python."""
        found = self.python or self.project.python
        _one_of("python", found, PYTHONS)
        return found

    @property
    def webhooks_file(self) -> Path | None:
        """The path of the folder's `webhooks.yaml`, if there is one."""
        return next((file for name in WEBHOOKS_FILES if (file := self.folder / name).is_file()), None)

    @property
    def keeps_data(self) -> bool:
        """Whether the data outlives the stack."""
        return self.removal_policy is not cdk.RemovalPolicy.DESTROY


def _within(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadProperty(f"{name}: {value!r} is not a whole number from {least} to {most}")


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadProperty(f"{name}: {value!r} is not one of {', '.join(allowed)}")

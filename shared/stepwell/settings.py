"""What the environment says, read here and nowhere else in the package.

| variable | means | default |
|---|---|---|
| `STEPWELL_URL` | the API that the command line talks to | `http://127.0.0.1:8787` |
| `STEPWELL_API_KEY`, `STEPWELL_TOKEN` | what the command line shows an API that asks for a key or a bearer token | |
| `STEPWELL_DATA` | where `stepwell dev` keeps its data | `.stepwell` of the project |
| `STEPWELL_HTTP_HOSTS` | the hosts that HTTP steps and endpoints may be at, with commas; `*`: every public one | `*` |
| `STEPWELL_PRICES` | a table of prices, instead of the workflow folder's | |
| `STEPWELL_LOG_LEVEL` | `debug`, `info`, `warning` or `error` | `info` |
| `NO_COLOR` | anything: no colours (no-color.org) | |
| `PYTHONHASHSEED` | the order of sets of text; every process that runs durable functions has the same | `0` |
| `USER`, `USERNAME` | who approves, rejects, cancels, unless `--by` says so | |

A deployed function has these from its stack:

| variable | means | default |
|---|---|---|
| `STEPWELL_TABLE`, `STEPWELL_BUCKET`, `STEPWELL_BUS` | the names of the table, the bucket, the event bus | |
| `STEPWELL_EVENTS` | what the bus is told: `all`, `runs` (all but what went well within a run) or `none` | `runs` |
| `STEPWELL_QUEUES` | `{"resume": {"url", "arn"}, "work": {POOL: {"url", "arn"}}}` | |
| `STEPWELL_DEAD_QUEUE` | the URL of the dead-letter queue, for the sweeper | |
| `STEPWELL_NOTIFICATIONS`, `STEPWELL_DEAD_NOTIFICATIONS` | the URLs of two queues: to endpoints, and dead | |
| `STEPWELL_SCHEDULE_GROUP`, `STEPWELL_SCHEDULE_ROLE` | where timers are made, and the role they send with | |
| `STEPWELL_WORKER` | the function that the API has answer queries | |
| `STEPWELL_LOG_GROUPS` | the log groups of the workers, with commas between them, for the API | none |
| `STEPWELL_POOL` | the pool whose steps this worker runs | `default` |
| `STEPWELL_STEPS_PER_INVOCATION` | how many steps of a fork one invocation of this worker runs at once | 1 |
| `STEPWELL_HTTP_HOSTS` | the hosts that HTTP steps and endpoints may be at, with commas between them | none |
| `STEPWELL_LANES` | `on`: the branches of a fork that one message brings are written together; `off` | `on` |
| `STEPWELL_MAX_STEPS` | records of one run | 100,000 |
| `STEPWELL_API_KEY_SECRET` | the secret that holds the API's key | |
| `STEPWELL_URL`, `STEPWELL_LINK_SECRET` | where the API is for others; the secret whose key signs links to it | |
| `STEPWELL_LIVE_TABLE` | the table of who watches | |
| `STEPWELL_LIVE_URL` | the WebSocket of the live feed; `/…`: below `AWS_ENDPOINT_URL` | |
| `STEPWELL_LIVE_CALLBACK` | where watchers are sent to; `/…`: below `AWS_ENDPOINT_URL` | |
| `STEPWELL_CONSOLE` | `{"issuer", "client_id", "audience", "origins"}`: the API serves the console, with this login | |
| `STEPWELL_TRACE` | anything: traces by X-Ray | |
| `STEPWELL_AWS_CLIENT` | what calls AWS: `thin`, Stepwell's own client where it can, or `boto3` | `thin` |
| `STEPWELL_COMPRESS` | anything: texts in the table are compressed where that takes fewer write units | |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | where spans of runs are sent; OpenTelemetry's SDK reads it and its kind | |
| `LAMBDA_TASK_ROOT` | the function's package; Lambda sets it | `.` |
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from stepwell.errors import UserError
from stepwell.limits import FORK_CHUNK, FORK_LANE, RUN_STEPS
from stepwell.values import dataclass

DEFAULT_PORT = 8787
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
LOG_LEVELS = ("debug", "info", "warning", "error")
EVENTS = ("all", "runs", "none")
AWS_CLIENTS = ("thin", "boto3")
OTEL_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HASH_SEED = {"PYTHONHASHSEED": "0"}  # of all processes that run durable functions: a replay sees sets in the same order


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a process."""

    url: str = DEFAULT_URL
    no_color: bool = False
    log_level: str = "info"
    data_dir: Path | None = None  # that of the project
    user: str = ""
    api_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    http_hosts: tuple[str, ...] = ("*",)
    prices: Path | None = None
    lane: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A queue: by its URL for those who send, by its ARN for schedules."""

    url: str
    arn: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a deployed function knows of its stack. A name that it was not given is empty: it has no use for it."""

    table: str
    bucket: str
    resume: QueuePlace
    work: Mapping[str, QueuePlace]  # by pool
    schedule_group: str = ""
    schedule_role: str = ""
    dead_queue: str = ""
    notifications: str = ""
    dead_notifications: str = ""
    bus: str = ""
    events: str = "runs"
    worker: str = ""
    log_groups: tuple[str, ...] = ()
    pool: str = "default"
    steps_per_invocation: int = 1
    max_steps: int = RUN_STEPS
    lane: int = 0
    api_key_secret: str = ""
    url: str = ""
    link_secret: str = ""
    live_table: str = ""
    live_callback: str = ""
    live_url: str = ""
    console: Mapping[str, Any] | None = None
    trace: bool = False
    compresses: bool = False
    sends_spans: bool = False
    log_level: str = "info"
    http_hosts: tuple[str, ...] = ()
    root: Path = Path()


@dataclass(frozen=True, slots=True)
class Aws:
    """What the environment says of AWS, as boto3 reads it too."""

    region: str
    endpoints: Mapping[str, str]  # by service; "" for all others
    is_thin: bool
    is_special: bool  # what only boto3 can do: proxies, other kinds of endpoints, traces of its calls
    ca_file: str = ""
    key_id: str = ""
    key_secret: str = field(default="", repr=False)
    key_token: str = field(default="", repr=False)


_BY_BOTO3 = ("STEPWELL_TRACE", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
_ENDPOINTS = {"": "AWS_ENDPOINT_URL", "dynamodb": "AWS_ENDPOINT_URL_DYNAMODB", "sqs": "AWS_ENDPOINT_URL_SQS",
              "events": "AWS_ENDPOINT_URL_EVENTBRIDGE", "ssm": "AWS_ENDPOINT_URL_SSM",
              "secretsmanager": "AWS_ENDPOINT_URL_SECRETS_MANAGER"}  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy")


def environment() -> Mapping[str, str]:
    """All variables, for what a user's own file names, such as a webhook's `env:NAME`."""
    return os.environ


def fix_hash_seed() -> None:
    """Starts this process anew with the hash seed that all have, unless the environment says one."""
    if not HASH_SEED.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **HASH_SEED})  # noqa: S606 - itself


def prefer_node(node: Path) -> None:
    """Makes the CDK run on this Node, unless the environment names another."""
    os.environ.setdefault("JSII_NODE", str(node))


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings. An empty variable is not set. Raises UserError `bad_setting` for an invalid value."""
    return Settings(
        url=environ.get("STEPWELL_URL", "").strip() or DEFAULT_URL,
        no_color=bool(environ.get("NO_COLOR")),
        log_level=_log_level(environ),
        data_dir=Path(kept) if (kept := environ.get("STEPWELL_DATA", "")) else None,
        user=environ.get("USER", "") or environ.get("USERNAME", ""),
        api_key=environ.get("STEPWELL_API_KEY", "").strip(),
        token=environ.get("STEPWELL_TOKEN", "").strip(),
        http_hosts=_texts(environ, "STEPWELL_HTTP_HOSTS") or ("*",),
        prices=Path(prices) if (prices := environ.get("STEPWELL_PRICES", "")) else None,
        lane=_lane(environ),
    )


def read_deployment(environ: Mapping[str, str] = os.environ) -> Deployment:
    """Reads what the stack says. Raises UserError `bad_setting` for an invalid value."""
    resume, work = _queues(environ.get("STEPWELL_QUEUES", ""))
    return Deployment(
        table=environ.get("STEPWELL_TABLE", ""),
        bucket=environ.get("STEPWELL_BUCKET", ""),
        resume=resume,
        work=work,
        schedule_group=environ.get("STEPWELL_SCHEDULE_GROUP", ""),
        schedule_role=environ.get("STEPWELL_SCHEDULE_ROLE", ""),
        dead_queue=environ.get("STEPWELL_DEAD_QUEUE", ""),
        notifications=environ.get("STEPWELL_NOTIFICATIONS", ""),
        dead_notifications=environ.get("STEPWELL_DEAD_NOTIFICATIONS", ""),
        bus=environ.get("STEPWELL_BUS", ""),
        events=_one_of("STEPWELL_EVENTS", EVENTS, environ.get("STEPWELL_EVENTS", "") or "runs"),
        worker=environ.get("STEPWELL_WORKER", ""),
        log_groups=_texts(environ, "STEPWELL_LOG_GROUPS"),
        pool=environ.get("STEPWELL_POOL", "") or "default",
        steps_per_invocation=_number(environ, "STEPWELL_STEPS_PER_INVOCATION", 1, FORK_CHUNK),
        max_steps=_number(environ, "STEPWELL_MAX_STEPS", RUN_STEPS, RUN_STEPS),
        lane=_lane(environ),
        api_key_secret=environ.get("STEPWELL_API_KEY_SECRET", ""),
        url=environ.get("STEPWELL_URL", ""),
        link_secret=environ.get("STEPWELL_LINK_SECRET", ""),
        live_table=environ.get("STEPWELL_LIVE_TABLE", ""),
        live_callback=_below_endpoint(environ, "STEPWELL_LIVE_CALLBACK"),
        live_url=re.sub("^http", "ws", _below_endpoint(environ, "STEPWELL_LIVE_URL")),
        console=json.loads(environ.get("STEPWELL_CONSOLE", "") or "null"),
        trace=bool(environ.get("STEPWELL_TRACE")),
        compresses=bool(environ.get("STEPWELL_COMPRESS")),
        sends_spans=bool(environ.get(OTEL_ENDPOINT)),
        log_level=_log_level(environ),
        http_hosts=_texts(environ, "STEPWELL_HTTP_HOSTS"),
        root=Path(environ.get("LAMBDA_TASK_ROOT", "")),
    )


def _below_endpoint(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    return environ.get("AWS_ENDPOINT_URL", "").rstrip("/") + value if value.startswith("/") else value


def read_aws(environ: Mapping[str, str] = os.environ) -> Aws:
    """Reads what AWS's own variables say. Raises UserError `bad_setting` for an unknown client."""
    client = environ.get("STEPWELL_AWS_CLIENT", "") or "thin"
    proxies = (environ.get(name) or environ.get(name.upper()) for name in _PROXIES)
    return Aws(
        region=environ.get("AWS_DEFAULT_REGION", "") or environ.get("AWS_REGION", ""),
        endpoints={service: environ[name] for service, name in _ENDPOINTS.items() if environ.get(name)},
        is_thin=_one_of("STEPWELL_AWS_CLIENT", AWS_CLIENTS, client) == "thin",
        is_special=any(proxies) or any(environ.get(name, "").lower() not in ("", "false") for name in _BY_BOTO3),
        ca_file=environ.get("AWS_CA_BUNDLE", ""),
        key_id=environ.get("AWS_ACCESS_KEY_ID", ""),
        key_secret=environ.get("AWS_SECRET_ACCESS_KEY", ""),
        key_token=environ.get("AWS_SESSION_TOKEN", ""),
    )


def has_endpoint(service: str) -> bool:
    """Tells whether the environment names an endpoint for a service, such as an emulator's."""
    return any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL", f"AWS_ENDPOINT_URL_{service.upper()}"))


def read_key_address() -> tuple[str, str]:
    """Returns the URL for AWS credentials and the token to send, which Lambda gives a function from a snapshot."""
    url = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    return url, os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")


def read_trace_id() -> str:
    """The invocation's trace, which Lambda sets anew for each; empty elsewhere."""
    return os.environ.get("_X_AMZN_TRACE_ID", "") if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else ""


def _log_level(environ: Mapping[str, str]) -> str:
    return _one_of("STEPWELL_LOG_LEVEL", LOG_LEVELS, environ.get("STEPWELL_LOG_LEVEL", "").lower() or "info")


def _lane(environ: Mapping[str, str]) -> int:
    is_on = _one_of("STEPWELL_LANES", ("on", "off"), environ.get("STEPWELL_LANES", "") or "on") == "on"
    return FORK_LANE if is_on else 0


def _texts(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in environ.get(name, "").split(",") if text.strip())


def _one_of(name: str, allowed: Sequence[str], value: str) -> str:
    if value not in allowed:
        raise _bad(name, value, f"one of {', '.join(allowed)}")
    return value


def _number(environ: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = environ.get(name, "") or str(default)
    if not text.isdecimal() or not 0 < int(text) <= most:
        raise _bad(name, text, f"a whole number from 1 to {most}")
    return int(text)


def _queues(text: str) -> tuple[QueuePlace, Mapping[str, QueuePlace]]:
    try:
        raw = json.loads(text or "{}")
        if not raw:  # a function that sends nothing, such as the authorizer
            return QueuePlace("", ""), {}
        return QueuePlace(**raw["resume"]), {pool: QueuePlace(**place) for pool, place in raw["work"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = '{"resume": {"url": …, "arn": …}, "work": {"default": {"url": …, "arn": …}}}'
        raise _bad("STEPWELL_QUEUES", text, hint) from error


def _bad(name: str, value: str, hint: str) -> UserError:
    return UserError(f"{name} is {value[:40]!r}", code="bad_setting", hint=hint)

"""The clients of AWS: one for each service, created on first use and reused.

Those that speak JSON are the thin client's where it can serve; S3, the Scheduler and Lambda are boto3's. Loading boto3
takes half a second, and each of its clients tenths of a second, so a function that does not need it avoids both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from stepwell.aws.protocols import (
    DynamoClient,
    EventsClient,
    LambdaClient,
    LiveClient,
    LogsClient,
    S3Client,
    SchedulerClient,
    SecretsManagerClient,
    SqsClient,
    SsmClient,
)
from stepwell.aws.thin.opening import ANSWER_SECONDS, CONNECT_SECONDS, CONNECTIONS, Thin, open_thin
from stepwell.settings import has_endpoint, read_aws
from stepwell.sockets import STAYING_OPEN

LOGS_SECONDS = 10  # a request looks through a megabyte of lines
CALLED_SECONDS = 900  # a called function may run this long before its first byte
IDLE_SECONDS = 10  # after which the service may have closed a connection


class Clients:
    """The clients of one region, without their own retries, because `calls.Retry` handles unknown outcomes."""

    def __init__(
        self, session: Any = None, thin: Thin | None = None, now_seconds: Callable[[], float] = time.time
    ) -> None:
        """`session` is a boto3 Session; the default reads the environment (AWS_REGION, AWS_ENDPOINT_URL …).

        `now_seconds` goes on while Lambda has the process stand still.
        """
        self._session, self._thin, self._now = session, thin, now_seconds
        self._made: dict[str, Any] = {}
        self._used: dict[str, float] = {}
        self._making = threading.Lock()

    def dynamodb(self) -> DynamoClient:
        client: DynamoClient = self._of("dynamodb")
        return client

    def sqs(self) -> SqsClient:
        client: SqsClient = self._of("sqs")
        return client

    def scheduler(self) -> SchedulerClient:
        client: SchedulerClient = self._of("scheduler")
        return client

    def events(self) -> EventsClient:
        client: EventsClient = self._of("events")
        return client

    def s3(self) -> S3Client:
        client: S3Client = self._of("s3")
        return client

    def secretsmanager(self) -> SecretsManagerClient:
        client: SecretsManagerClient = self._of("secretsmanager")
        return client

    def ssm(self) -> SsmClient:
        client: SsmClient = self._of("ssm")
        return client

    def lambda_(self) -> LambdaClient:
        client: LambdaClient = self._fresh("lambda", self._of("lambda", CALLED_SECONDS))
        return client

    def logs(self) -> LogsClient:
        client: LogsClient = self._of("logs", LOGS_SECONDS)
        return client

    def live(self, url: str) -> LiveClient:
        """`url`: of the WebSocket API's stage, to which the management of its connections belongs."""
        client: LiveClient = self._fresh("live", self._of("apigatewaymanagementapi", url=url))
        return client

    def service(self, name: str) -> Any:
        """boto3's client of any service, for the steps that call one."""
        key = f"{name} for steps"
        if key not in self._made:
            self._made[key] = self._boto3(name, CALLED_SECONDS, None)
        return self._fresh(key, self._made[key])

    def _fresh(self, key: str, client: Any) -> Any:
        """Returns a client that repeats no call and has no idle connections.

        Lambda has a process stand still between two invocations. What the service closes meanwhile is found out only by
        the next request, which fails.
        """
        with self._making:  # so that no other thread has the client before that
            now = self._now()
            if now - self._used.get(key, now) > IDLE_SECONDS:
                client.close()  # it opens others; what is under way keeps its own
            self._used[key] = now
        return client

    def _of(self, service: str, answer_seconds: float = ANSWER_SECONDS, url: str | None = None) -> Any:
        client = self._made.get(service)
        if client is None:
            with self._making:
                client = self._made.get(service) or self._make(service, answer_seconds, url)
                self._made[service] = client
        return client

    def _make(self, service: str, answer_seconds: float, url: str | None) -> Any:
        thin = None if self._thin is None else self._thin.client(service)
        return thin or self._boto3(service, answer_seconds, url)

    def _boto3(self, service: str, answer_seconds: float, url: str | None) -> Any:
        import boto3  # noqa: PLC0415 - half a second that a cold start pays only for what it uses
        from botocore.config import Config  # noqa: PLC0415

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1},
            tcp_keepalive=True,
            **(_links() if service == "s3" else {}),
        )
        client = (self._session or boto3).client(service, config=config, endpoint_url=url)
        _stay_open(client)
        return client


def _stay_open(client: Any) -> None:
    """Adds when to give signs of life to botocore's `tcp_keepalive`, which leaves that to the system: after two hours.

    botocore has no setting for it. Where its inside is another one, the client is left as it is.
    """
    options = getattr(getattr(getattr(client, "_endpoint", None), "http_session", None), "_socket_options", None)
    if isinstance(options, list):
        options += STAYING_OPEN


def _links() -> dict[str, Any]:
    """Returns how links to objects are signed: by version 4, which a customer's key requires, at the region's own host.

    boto3 would sign with version 2 in the oldest regions, and elsewhere name a host that does not know a new bucket.
    """
    own = {} if has_endpoint("s3") else {"s3": {"addressing_style": "virtual"}}
    return {"signature_version": "s3v4", **own}


def open_clients() -> Clients:
    """Returns the function's clients, none of them created yet."""
    return Clients(thin=open_thin(read_aws()))

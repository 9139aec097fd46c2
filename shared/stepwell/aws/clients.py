"""boto3's clients: one for each service, created on first use and reused.

Creating a client takes tenths of a second, most for the Scheduler, so a function that sets no timer avoids it.
"""

from __future__ import annotations

import threading
from typing import Any

from stepwell.aws.protocols import (
    DynamoClient,
    EventsClient,
    LambdaClient,
    LiveClient,
    S3Client,
    SchedulerClient,
    SecretsManagerClient,
    SqsClient,
    SsmClient,
)

CONNECT_TIMEOUT_SECONDS = 1
READ_TIMEOUT_SECONDS = 3  # between two bytes
ANSWER_TIMEOUT_SECONDS = 900  # a called function may run this long before its first byte
CONNECTIONS = 32


class Clients:
    """The clients of one region, without their own retries, because `calls.Retry` handles unknown outcomes."""

    def __init__(self, session: Any = None) -> None:
        """`session` is a boto3 Session; the default reads the environment (AWS_REGION, AWS_ENDPOINT_URL …)."""
        self._session = session
        self._made: dict[str, Any] = {}
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
        client: LambdaClient = self._of("lambda", ANSWER_TIMEOUT_SECONDS)
        return client

    def live(self, url: str) -> LiveClient:
        """`url`: of the WebSocket API's stage, to which the management of its connections belongs."""
        client: LiveClient = self._of("apigatewaymanagementapi", url=url)
        return client

    def _of(self, service: str, read_timeout_seconds: float = READ_TIMEOUT_SECONDS, url: str | None = None) -> Any:
        client = self._made.get(service)
        if client is None:
            with self._making:
                client = self._made.get(service) or self._make(service, read_timeout_seconds, url)
                self._made[service] = client
        return client

    def _make(self, service: str, read_timeout_seconds: float, url: str | None) -> Any:
        import boto3  # noqa: PLC0415 - half a second that a cold start pays only for what it uses
        from botocore.config import Config  # noqa: PLC0415

        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout_seconds,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1},
            tcp_keepalive=True,
        )
        return (self._session or boto3).client(service, config=config, endpoint_url=url)

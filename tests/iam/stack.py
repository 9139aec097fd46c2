"""The deployed handlers in this process, under the names that the template gives to what they use."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ministack.services import dynamodb, eventbridge

from stepwell.aws.store.table import SHAPE
from stepwell.runtime.folder.pack import pack_folder
from stepwell.runtime.steps.http_call import Network
from tests.contract.emulated import AwsQueue, answer, aws_queue
from tests.functions.kit import POOLS, ROOT, Deployment, Invocation, event_of
from tests.iam.policies import Need
from tests.iam.requests import Recorder
from tests.iam.template import ACCOUNT, REGION, Template
from tests.infra.kit import VPC

WORKFLOWS = Path(__file__).parent / "workflows"
THEIRS = "theirs"  # a table, a bucket and a bus of the user's
SECRET = "a secret of the stack, long enough to sign"  # noqa: S105
KEY_ARN = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-1111-1111-1111-111111111111"
HTTP_HOSTS = ["calls.example.com"]
# Whatever gives a role a statement is on.
CONTEXT = {
    "folder": str(WORKFLOWS),
    "auth": "api_key",
    "kms_key_arn": KEY_ARN,
    "pools": {pool: {} for pool in POOLS},
    "tracing": True,
    "live": True,
    "vpc": VPC,
    "http_hosts": HTTP_HOSTS,
}
_OURS = ("STEPWELL_", "POWERTOOLS_")
_ANSWERS = {
    "GetSecretValue": {"SecretString": SECRET},
    "GetParameter": {"Parameter": {"Value": SECRET}},
    "FilterLogEvents": {"events": []},
    "Invoke": {"score": 1, "value": 1},  # of a step, and of a query
    "PostToConnection": {},
}
_DATA = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


@dataclass(frozen=True, slots=True)
class Played:
    """What the handlers needed, each in its role, and what the API was asked: method and path."""

    needs: frozenset[tuple[str, Need]]
    called: tuple[tuple[str, str], ...]


class Stack(Deployment):
    """As in the tests of the handlers; but what each handler is told of its stack is what the template says."""

    def __init__(self, template: Template, package: Path, queue: AwsQueue, patch: pytest.MonkeyPatch) -> None:
        self.template, self.recorder, self._opened = template, Recorder(), set[str]()
        self.called: list[tuple[str, str]] = []
        self.table, self.bucket, self.bus = (
            template.name(next(iter(template.made.of(kind))))
            for kind in ("DynamoDB::Table", "S3::Bucket", "Events::EventBus")
        )
        super().__init__(package, queue, self.table, self.bucket, patch)
        clients = {
            service: self.cloud.connect(service)
            for service in ("dynamodb", "events", "lambda_", "logs", "s3", "scheduler", "secretsmanager", "sqs", "ssm")
        }
        clients["dynamodb"].create_table(TableName=self.table, StreamSpecification=_DATA, **SHAPE)
        clients["s3"].create_bucket(Bucket=self.bucket)
        clients["events"].create_event_bus(Name=self.bus)
        clients["scheduler"].create_schedule_group(Name=next(iter(template.made.of("Scheduler::ScheduleGroup"))))
        self._open_live(clients["dynamodb"])
        clients["dynamodb"].create_table(TableName=THEIRS, **SHAPE)
        clients["events"].create_event_bus(Name=THEIRS)
        clients["s3"].create_bucket(Bucket=THEIRS)
        clients["s3"].put_object(Bucket=THEIRS, Key="in/items.json", Body=b"[1]")
        called = [self.cloud.service(name) for name in ("dynamodb", "events", "s3")]  # by tasks of a state machine
        for client in (*clients.values(), *called, self.cloud.clients._made["apigatewaymanagementapi"]):
            self.recorder.listen(client)
        self.cloud.heard = self.recorder.hear
        self.cloud.before = lambda operation, _: (
            answer(200, json.dumps(_ANSWERS[operation])) if operation in _ANSWERS else None
        )

    def _open_live(self, dynamodb_client: Any) -> None:
        """The table of who watches, and a client of the WebSocket API."""
        self.connections, self.recorder.live_api = (
            next(self.template.name(id_) for id_ in self.template.made.of(kind) if "Live" in id_)
            for kind in ("DynamoDB::Table", "ApiGatewayV2::Api")
        )
        dynamodb_client.create_table(TableName=self.connections, **{
            name: value if name == "BillingMode" else [one for one in value if set(one.values()) & {"pk", "sk"}]
            for name, value in SHAPE.items() if name != "GlobalSecondaryIndexes"
        })  # fmt: skip
        client: Any = self.cloud.clients.live("https://live.example.com/live")
        client.meta.events.register("before-send.apigatewaymanagementapi", self.cloud._send)

    def function(self, name: str, pool: str = "default") -> ModuleType:
        """The handler, which acts in its own role from its import on."""
        actor = f"worker-{pool}" if name == "worker" else name
        if actor in self._opened:
            return super().function(name, pool)
        for variable in [variable for variable in os.environ if variable.startswith(_OURS)]:
            self._patch.delenv(variable)
        for variable, value in self.template.environment(actor).items():
            if variable != "STEPWELL_TRACE":  # what X-Ray is sent goes by its daemon, not by a client
                self._patch.setenv(variable, value)
        with self.recorder.acting(actor):
            module = super().function(name, pool)
        self._patch.setattr(module, "handler", self._acting(actor, module.handler))
        self._opened.add(actor)
        return module

    def _acting(self, actor: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def act(event: Any, context: Any) -> Any:
            with self.recorder.acting(actor):
                return handler(event, context)

        return act

    # -- what invokes the handlers

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **request_context: Any
    ) -> tuple[int, Any]:
        """Through API Gateway; the path may have a query. Answers that are no JSON are text."""
        place, _, query = path.partition("?")
        self.called.append((method, place))
        event = event_of("http")
        event["requestContext"].update(request_context)
        event["requestContext"]["http"].update(method=method, path=place)
        event["headers"] |= headers or {}
        event.update(rawPath=place, rawQueryString=query, body=None if body is None else json.dumps(body))
        answered = self.function("api").handler(event, Invocation(self.clock, 29))
        text = answered["body"] or "null"
        return answered["statusCode"], json.loads(text) if text[0] in '{["n' else text

    def form(self, path: str, body: str) -> int:
        """A page's form, as a browser sends it. Returns the status."""
        self.called.append(("POST", path))
        event = event_of("link")
        event["requestContext"]["http"].update(path=path)
        event.update(rawPath=path, body=base64.b64encode(body.encode()).decode())
        return int(self.function("api").handler(event, Invocation(self.clock, 29))["statusCode"])

    def hook(self, source: str, body: Any) -> int:
        """A delivery as GitHub signs one. Returns the status."""
        text = json.dumps(body)
        event = event_of("http")
        event["requestContext"]["http"].update(method="POST", path=f"/webhooks/{source}")
        event["headers"].update({
            "x-github-delivery": hashlib.sha256(text.encode()).hexdigest(),
            "x-hub-signature-256": f"sha256={hmac.new(SECRET.encode(), text.encode(), 'sha256').hexdigest()}",
        })  # fmt: skip
        event.update(rawPath=f"/webhooks/{source}", body=text)
        return int(self.function("webhooks").handler(event, Invocation(self.clock, 10))["statusCode"])

    def authorize(self, key: str) -> bool:
        event = event_of("authorizer")
        event["headers"]["x-api-key"] = key
        return bool(self.function("authorizer").handler(event, Invocation(self.clock, 10))["isAuthorized"])

    def watch(self, kind: str, connection: str, body: str = "", **query: str) -> int:
        """An event of the WebSocket API. Returns the status."""
        event = event_of(f"websocket_{kind}")
        event["requestContext"]["connectionId"] = connection
        event.update(body=body, queryStringParameters=query)
        return int(self.function("live").handler(event, Invocation(self.clock, 10))["statusCode"])

    def sweep(self) -> dict[str, int]:
        counts: dict[str, int] = self.function("sweeper").handler(event_of("schedule"), Invocation(self.clock, 290))
        return counts

    def written(self) -> list[dict[str, Any]]:
        """What the table's stream holds."""
        return list(dynamodb.stream_live_records(self.table))

    def tell(self, records: list[dict[str, Any]]) -> None:
        """The stream's records, a hundred in a batch. None of them may fail."""
        for at in range(0, len(records), 100):
            event = {"Records": copy.deepcopy(records[at : at + 100])}
            assert self.function("stream").handler(event, Invocation(self.clock, 300)) == {"batchItemFailures": []}

    # -- names

    def id_of(self, queue: str) -> str:
        """The logical id of a queue."""
        prefix = {"dead": "Dead", "resume": "Resume", "notifications": "Letters", "dead-notifications": "DeadLetters"}
        for pool in POOLS:
            prefix |= {pool: f"Work{pool}", f"dead-{pool}": f"WorkDead{pool}"}
        return self.template.made.queue(prefix[queue]) if queue in prefix else queue

    def _make(self, name: str, visibility_seconds: int = 30, dead: str = "", receives: int = 5) -> str:
        attributes = {"VisibilityTimeout": str(visibility_seconds)}
        if dead:
            attributes["RedrivePolicy"] = json.dumps(
                {"deadLetterTargetArn": self._arn(dead), "maxReceiveCount": receives}
            )
        url: str = self.sqs.create_queue(QueueName=self.id_of(name), Attributes=attributes)["QueueUrl"]
        return url

    def _arn(self, name: str) -> str:
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.id_of(name)}"


@contextmanager
def standing(template: Template, package: Path, patch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The stack, until the end of the block."""
    shutil.copytree(WORKFLOWS, package / "workflows")
    patch.setenv("LAMBDA_TASK_ROOT", str(package))
    (package / "functions").symlink_to(ROOT / "functions")
    (package / "workflows.json").write_text(json.dumps(pack_folder(WORKFLOWS)))
    with aws_queue() as queue:
        clients, clock = queue.cloud.clients, queue.clock
        for module in (
            "stepwell.aws.wiring",
            "stepwell.aws.entry",
            "stepwell.aws.sending",
            "stepwell.runtime.stores.clocks",
        ):
            patch.setattr(f"{module}.RealClock", lambda: clock)
        for room in ("wiring", "entry", "sending", "clients"):
            patch.setattr(f"stepwell.aws.{room}.open_clients", lambda: clients)
        patch.setattr("stepwell.aws.calls.Retry.wait", lambda *_: None)
        nowhere = Network(resolve=lambda *_: ["127.0.0.1"])  # where no HTTP step may go
        patch.setattr("stepwell.runtime.steps.http_call.Network", lambda: nowhere)
        stack = Stack(template, package, queue, patch)
        try:
            yield stack
        finally:
            stack.cloud.heal()
            for table in (stack.table, stack.connections, THEIRS):
                stack.cloud.connect("dynamodb").delete_table(TableName=table)
            eventbridge.reset()

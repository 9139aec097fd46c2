"""The handlers in this process, as Lambda has them: a package, an environment, events; over emulated AWS."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ministack.services import scheduler

from stepwell.definition.graph import Json
from stepwell.engine.records import Record
from stepwell.engine.token import Token
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.folder.pack import pack_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header
from tests.contract.emulated import AwsQueue

ROOT = Path(__file__).parents[2]
EVENTS = Path(__file__).parent / "events"
TIMEOUT_SECONDS = 900  # of a worker, and so its queue's visibility
POOLS = ("default", "heavy")
_TAKEN_BY = {"notifications": "sender"}


def event_of(name: str) -> dict[str, Any]:
    """An event as AWS sends it."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def write_package(folder: Path, definition: str, steps: str = "", **more: Json) -> None:
    """A function's package: the handlers, the packed workflows, the workflow folder."""
    (folder / "functions").symlink_to(ROOT / "functions")  # on Lambda they are in the package `stepwell`
    workflows = folder / "workflows"
    workflows.mkdir()
    (workflows / "flow.yaml").write_text(definition)
    (workflows / "m.py").write_text(steps)
    (folder / "workflows.json").write_text(json.dumps({**pack_folder(workflows), **more}))


def environment_of(places: Mapping[str, Any], table: str = "t", bucket: str = "b") -> dict[str, str]:
    """What the stack tells its functions."""
    return {
        "STEPWELL_TABLE": table,
        "STEPWELL_BUCKET": bucket,
        "STEPWELL_QUEUES": json.dumps(places),
        "STEPWELL_SCHEDULE_GROUP": "default",
        "STEPWELL_SCHEDULE_ROLE": "arn:aws:iam::000000000000:role/timers",
        "STEPWELL_API_KEY_SECRET": "the-key",
        "STEPWELL_DEAD_QUEUE": "https://sqs.us-east-1.amazonaws.com/000000000000/dead",
        "POWERTOOLS_SERVICE_NAME": "stepwell",
        "POWERTOOLS_METRICS_NAMESPACE": "Stepwell",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "1" * 12,
        "AWS_SECRET_ACCESS_KEY": "none",
    }


class Invocation:
    """Lambda's context: the time left counts from when this was made."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def __init__(self, clock: VirtualClock, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._clock, self._until_ms = clock, clock.now_ms() + timeout_seconds * 1_000

    def get_remaining_time_in_millis(self) -> int:
        return int(self._until_ms - self._clock.now_ms())


class Deployment:
    """A deployed stack: its handlers, and the event source mappings that call them."""

    def __init__(self, package: Path, queue: AwsQueue, table: str, bucket: str, patch: pytest.MonkeyPatch) -> None:
        self.clock, self.cloud, self._package, self._patch = queue.clock, queue.cloud, package, patch
        self.table = table
        self.sqs = self.cloud.connect("sqs")
        for service in ("dynamodb", "s3", "scheduler"):
            self.cloud.connect(service)
        self.urls = {"dead": self._make("dead")}
        self.urls["resume"] = self._make("resume", 60, "dead")
        for pool in POOLS:
            self.urls[f"dead-{pool}"] = self._make(f"dead-{pool}", 60, "dead", 10)
            self.urls[pool] = self._make(pool, TIMEOUT_SECONDS, f"dead-{pool}")
        self.urls["dead-notifications"] = self._make("dead-notifications")
        self.urls["notifications"] = self._make("notifications", 30, "dead-notifications")
        work = {pool: self._place(pool) for pool in POOLS}
        for name, value in environment_of({"resume": self._place("resume"), "work": work}, table, bucket).items():
            patch.setenv(name, value)
        patch.setenv("LAMBDA_TASK_ROOT", str(package))
        patch.setenv("STEPWELL_DEAD_QUEUE", self.urls["dead"])
        patch.setenv("STEPWELL_NOTIFICATIONS", self.urls["notifications"])
        patch.setenv("STEPWELL_DEAD_NOTIFICATIONS", self.urls["dead-notifications"])
        self._functions: dict[str, ModuleType] = {}
        self.world = SimpleNamespace(clock=self.clock, said=[])  # what the steps may import
        patch.setitem(sys.modules, "world", self.world)

    def function(self, name: str, pool: str = "default") -> ModuleType:
        """The handler's module, imported from the package as Lambda does."""
        key = f"{name}-{pool}"
        if key not in self._functions:
            self._patch.setenv("STEPWELL_POOL", pool)
            spec = importlib.util.spec_from_file_location(f"handler_{name}", self._package / "functions" / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._functions[key] = module
        return self._functions[key]

    # -- the API

    def call(self, method: str, path: str, body: Json = None, **request_context: Any) -> tuple[int, Any]:
        """Through API Gateway: status and body."""
        event = event_of("http")
        event["requestContext"].update(request_context)
        event["requestContext"]["http"].update(method=method, path=path)
        event.update(rawPath=path, body=None if body is None else json.dumps(body))
        answer = self.function("api").handler(event, Invocation(self.clock, 29))
        return answer["statusCode"], json.loads(answer["body"] or "null")

    def start(self, given: Json = None, workflow: str = "flow") -> str:
        status, run = self.call("POST", f"/workflows/{workflow}/runs", {"input": given or {}})
        assert status == 201, run
        run_id: str = run["run_id"]
        return run_id

    def run(self, run_id: str) -> Any:
        status, found = self.call("GET", f"/runs/{run_id}")
        assert status == 200, found
        return found

    def records(self, run_id: str) -> tuple[Record, ...]:
        return run_now(self.function("api").entry.parts.service.records(run_id))

    def token(self, run_id: str) -> Token:
        token: Token = run_now(self.function("api").entry.parts.service.standing(run_id)).token
        return token

    def header(self, run_id: str) -> Header:
        header: Header = run_now(self.function("api").entry.parts.service.header(run_id))
        return header

    # -- the queues

    def messages(self, queue: str, most: int = 1) -> dict[str, Any]:
        """An event with what the queue holds now, as its event source mapping makes it."""
        scheduler._tick_schedules()
        taken = self.sqs.receive_message(
            QueueUrl=self.urls[queue], MaxNumberOfMessages=most, WaitTimeSeconds=0, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        return {"Records": [self._record(queue, message) for message in taken]}

    def invoke(self, queue: str, event: Mapping[str, Any], timeout_seconds: float = TIMEOUT_SECONDS) -> list[str]:
        """The event's handler handles it; what did not fail is deleted. Returns the ids of what failed."""
        handler = (
            self.function("worker", queue) if queue in POOLS else self.function(_TAKEN_BY.get(queue, "coordinator"))
        )
        answer = handler.handler(copy.deepcopy(event), Invocation(self.clock, timeout_seconds))
        failed = [item["itemIdentifier"] for item in answer["batchItemFailures"]]
        for record in event["Records"]:
            if record["messageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.urls[queue], ReceiptHandle=record["receiptHandle"])
        return failed

    def deliver(self, *queues: str, timeout_seconds: float = TIMEOUT_SECONDS) -> int:
        """Everything that can be had now, until nothing can. Returns how many invocations there were."""
        names = queues or (*POOLS, "resume", *(f"dead-{pool}" for pool in POOLS))
        invocations = 0
        while events := [(name, event) for name in names if (event := self.messages(name))["Records"]]:
            for name, event in events:
                self.invoke(name, event, timeout_seconds)
                invocations += 1
        return invocations

    def send(self, queue: str, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.urls[queue], MessageBody=body)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1_000))

    def _make(self, name: str, visibility_seconds: int = 30, dead: str = "", receives: int = 5) -> str:
        attributes = {"VisibilityTimeout": str(visibility_seconds)}
        if dead:
            target = {"deadLetterTargetArn": self._arn(dead), "maxReceiveCount": receives}
            attributes["RedrivePolicy"] = json.dumps(target)
        url: str = self.sqs.create_queue(QueueName=f"stack-{name}", Attributes=attributes)["QueueUrl"]
        return url

    def _arn(self, name: str) -> str:
        return f"arn:aws:sqs:us-east-1:000000000000:stack-{name}"

    def _place(self, name: str) -> dict[str, str]:
        return {"url": self.urls[name], "arn": self._arn(name)}

    def _record(self, queue: str, message: Mapping[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = event_of("sqs")["Records"][0]
        return {
            **record,
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": {**record["attributes"], **message["Attributes"]},
            "eventSourceARN": self._arn(queue),
        }

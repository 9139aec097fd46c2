"""The deployed engine as its tests see it: an API, queues that can be spoiled, and a clock that can be moved."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from stepwell.aws.emulation.deployment import Stack
from stepwell.aws.emulation.emulator import ACCOUNT, Emulator
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.client import Client, RunFailed, run_calls
from stepwell.engine.records import ROOT as ROOT_TOKEN
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.loop.driving import run_now

T = TypeVar("T")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
MAX_STEPS = 300
CALLER = f"arn:aws:iam::{ACCOUNT}:root"  # as IAM knows who signs
SECRET = "the hub's secret"  # noqa: S105
DEADLINE_SECONDS = 180.0
ENDED = {"completed", "compensated", "failed", "timed_out", "cancelled"}


class Clock:
    """Every process of the emulator reads how far it is ahead off the time of a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.ahead_seconds = 0
        file.touch()
        self.advance(0)

    def advance(self, seconds: int) -> None:
        self.ahead_seconds += seconds
        os.utime(self.file, (self.ahead_seconds, self.ahead_seconds))

    def now(self) -> float:
        return time.time() + self.ahead_seconds


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is deployed."""

    emulator: Emulator
    stack: Stack
    clock: Clock
    url: str
    client: Client
    log: Path

    def start(self, workflow: str, body: Any = None) -> str:
        return self.client.start(workflow, {} if body is None else body).id

    def run(self, run_id: str) -> Mapping[str, Any]:
        return self.client.handle(run_id).view()

    def end(self, run_id: str, *, seconds: float = DEADLINE_SECONDS) -> Mapping[str, Any]:
        """The run once it has ended."""
        until_seconds = time.monotonic() + seconds
        while (run := self.run(run_id))["status"] not in ENDED:
            if time.monotonic() > until_seconds:
                raise AssertionError(f"{run_id} is still {run['status']}: {json.dumps(run, indent=1)}")
            with suppress(RunFailed):  # it has ended
                self.client.send(run_calls.result_answer(run_id, 5))
        return run

    def waits(self, run_id: str) -> Mapping[str, Any]:
        """The run once it waits."""
        return until(lambda: (run := self.run(run_id))["status"] == "waiting" and run, f"{run_id} waits")

    def records(self, run_id: str, token: str = ROOT_TOKEN) -> list[Mapping[str, Any]]:
        """The token's log as it is stored."""
        table = Table(self.stack.outputs["TableName"], lambda: self.emulator.client("dynamodb"), MemoryBlobs())
        return [json.loads(saved.body) for saved in run_now(DynamoStore(table).read_log(run_id, token))]

    def deliver(self, source: str, body: bytes, event: str, secret: str = SECRET) -> httpx.Response:
        """GitHub's call, as it signs one."""
        headers = {
            "content-type": "application/json",
            "x-github-event": event,
            "x-github-delivery": hashlib.sha256(body).hexdigest(),
            "x-hub-signature-256": f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}",
        }
        return httpx.post(
            f"{self.url}/webhooks/{source}", content=body, headers=headers, timeout=DEADLINE_SECONDS, trust_env=False
        )

    def queue(self, pool: str = "") -> str:
        """The URL of a pool's work queue, else of the resume queue."""
        outputs = self.stack.outputs
        return str(json.loads(outputs["WorkQueueUrls"])[pool]) if pool else outputs["ResumeQueueUrl"]

    def schedules(self, run_id: str) -> list[Mapping[str, Any]]:
        """The run's timers beyond what a queue can hold."""
        client = self.emulator.client("scheduler")
        found = []
        for listed in client.list_schedules()["Schedules"]:
            with suppress(client.exceptions.ResourceNotFoundException):  # it fires meanwhile
                found.append(client.get_schedule(Name=listed["Name"]))
        return [one for one in found if json.loads(one["Target"]["Input"])["run_id"] == run_id]

    def messages(self, queue_url: str) -> list[Mapping[str, Any]]:
        """What is in the queue, visible or not."""
        answer = httpx.get(
            f"{self.emulator.url}/_ministack/sqs/messages", params={"QueueUrl": queue_url}, trust_env=False
        )
        return [
            message
            for regions in answer.json()["messages"].values()
            for queues in regions.values()
            for messages in queues.values()
            for message in messages
        ]


def until(
    look: Callable[[], T | bool | None], what: str, seconds: float = DEADLINE_SECONDS, pause_seconds: float = 0.05
) -> T:
    """The first thing true that `look` gives; fails when it gives none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found  # type: ignore[return-value]  # True is for those who ask whether
        time.sleep(pause_seconds)
    raise AssertionError(f"not in time: {what}")

"""The steps of `release`, against a fleet that is kept in files.

| variable | means | default |
|---|---|---|
| `TRAIN_DATA` | the folder of the files | `.stepwell/train`; in a Lambda function a temporary one |
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stepwell
from stepwell.runtime.steps.context import StepContext

# What the branch `main` of each repository stands at.
COMMITS = {"acme/web": "a1" * 20, "acme/api": "b2" * 20, "acme/jobs": "c3" * 20}
CANARIES = ["madrid", "oslo", "lima"]
FIRST_ID = 1_700_000_001  # of the deployments


@dataclass
class Service:
    """One car of the train."""

    repository: str
    commit: str


@dataclass
class Plan:
    """What a train carries, and where it is tried."""

    tag: str
    services: list[Service]
    canaries: list[str]


@dataclass
class Deployed:
    """A canary."""

    place: str
    deployment_id: int


class CheckFailed(stepwell.External):
    """A service is not fit to travel."""


class Unhealthy(stepwell.External):
    """A canary is not well."""


def plan(tag: str = "", due: str = "") -> Plan:
    """What a release names, or the day of the train: `due` is the schedule's time, in UTC."""
    services = [Service(repository, commit) for repository, commit in COMMITS.items()]
    return Plan(tag or f"train-{due[:10]}", services, CANARIES)


def refuse(service: Service, check: dict[str, Any]) -> None:
    """Raises CheckFailed, always: it is how a branch fails."""
    raise CheckFailed(f"{service.repository}: the check `{check['name']}` ended with {check['conclusion']}")


def deploy(place: str, tag: str, ctx: StepContext) -> Deployed:
    """Asks for a deployment; a second try finds that of the first."""
    return Deployed(place, FIRST_ID + _write("deployments", ctx.idempotency_key, place=place, tag=tag))


def withdraw(output: Deployed) -> None:
    """Undoes `deploy`. The line's key is the deployment's: one that was given up already is not withdrawn again."""
    _write("withdrawn", str(output.deployment_id), place=output.place)


def give_up(deployed: Deployed, status: dict[str, Any]) -> None:
    """Takes a sick canary back at once, and raises Unhealthy: the others may still be enough."""
    withdraw(deployed)
    raise Unhealthy(f"{deployed.place}: {status['state']}", data=status)


def promote(tag: str, services: list[Service], agreed: list[str], ctx: StepContext) -> dict[str, object]:
    """Sends the train everywhere; its result is the run's."""
    names = [service.repository for service in services]
    _write("promoted", ctx.idempotency_key, tag=tag, services=names)
    return {"tag": tag, "services": names, "agreed": agreed}


def lines(book: str) -> list[dict[str, Any]]:
    """What stands in a file, oldest first."""
    path = _file(book)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _file(book: str) -> Path:
    usual = Path(tempfile.gettempdir()) / "train" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/train")
    folder = Path(os.environ.get("TRAIN_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{book}.jsonl"


def _write(book: str, key: str, **line: object) -> int:
    """One line per key, however often it is asked for; gives its place, from 0."""
    keys = [one["key"] for one in lines(book)]
    if key in keys:
        return keys.index(key)
    with _file(book).open("a") as out:
        out.write(json.dumps({"key": key, **line}) + "\n")
    return len(keys)

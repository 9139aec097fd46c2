"""The steps of the machine `claim`: an insurer's register, appraiser, inspectors and bank, all of them made up.

| variable | means | default |
|---|---|---|
| `CLAIM_DATA` | the folder in which inspectors find what they are asked | `.stepwell/inspections` |
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from stepwell.runtime.steps.context import StepContext

POLICIES = {"P-100": ("silver", 300), "P-200": ("gold plus", 0)}
COSTS = {"scratch": 180, "dent": 640, "bumper": 1450, "door": 2100}


class NoSuchPolicy(Exception):
    """The register has no policy of this number. The machine catches it by its name."""


class RegisterBusy(Exception):
    """The register takes no questions now. The machine tries again."""


def find_policy(number: str) -> dict[str, str | int]:
    """Looks a policy up; its class decides what is paid at once."""
    if number not in POLICIES:
        raise NoSuchPolicy(f"there is no policy {number}")
    kind, excess = POLICIES[number]
    return {"number": number, "class": kind, "excess": excess}


def appraise(photo: str, number: int) -> dict[str, str | int]:
    """Says what is broken in a photo, by its file name, and what the repair costs."""
    part = photo.partition(".")[0]
    return {"number": number, "part": part, "cost": COSTS.get(part, 0)}


def estimate(costs: list[int] | int | None, excess: int) -> dict[str, int]:
    """Adds up the repairs. JSONata gives the only one of a list as itself, and nothing for none."""
    each = costs if isinstance(costs, list) else [costs or 0]
    return {"total": sum(each), "due": max(sum(each) - excess, 0)}


def ask_inspector(MessageBody: dict[str, Any], **_: str) -> None:  # noqa: N803  the parameter's name in SQS
    """Leaves the photos and the task's token in the inspectors' folder. Whoever has the token ends the task."""
    inbox = Path(os.environ.get("CLAIM_DATA", ".stepwell/inspections"))
    inbox.mkdir(parents=True, exist_ok=True)
    (inbox / f"{MessageBody['policy']}.json").write_text(json.dumps(MessageBody))


def pay(reference: str, amount: int, ctx: StepContext) -> dict[str, str]:
    """Pays once: the bank knows a transfer that comes again by its key."""
    return {"transfer": f"{reference}/{ctx.idempotency_key[-8:]}"}

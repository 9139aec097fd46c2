"""asyncio in a durable function: each program does what plain asyncio does with it, also where it is replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.durable.asyncio_cancels
import tests.durable.asyncio_contexts
import tests.durable.asyncio_habits
import tests.durable.asyncio_oddities
import tests.durable.asyncio_patterns  # noqa: F401 - they add their programs
from tests.durable.asyncio_programs import PROGRAMS, play
from tests.durable.conftest import Flows
from tests.durable.plain_loop import run_plainly

FILES = {name: f"{made.__module__.rpartition('.')[2]}.py" for name, made in PROGRAMS.items()}
EVENTS = {"go": (20.0, {"n": 1})}


def durably(flows: Flows, name: str, sessions: int) -> Any:
    """What the program comes to as a durable function, and what its run cost."""
    kit = flows((Path(__file__).parent / FILES[name]).read_text(), sessions=sessions)
    run = kit.start("flow", {"program": name})
    kit.advance(EVENTS["go"][0])
    kit.event("go", EVENTS["go"][1])
    kit.advance("1h")
    assert run.status == "completed", (run, run.error, run.view["waiting_data"])
    return run.result


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_plain_asyncio_does(flows: Flows, name: str, sessions: int) -> None:
    expected = run_plainly(lambda ctx: play(ctx, name), EVENTS)
    assert durably(flows, name, sessions) == json.loads(json.dumps(expected))

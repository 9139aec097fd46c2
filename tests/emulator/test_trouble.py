"""What goes wrong in a real deployment: workers that die, and messages that nobody can take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.kit import World, until

pytestmark = pytest.mark.slow

GARBAGE = "no message of ours"
DELIVERIES = 5
VISIBILITY_SECONDS = 61  # longer than any message stays invisible to the next receiver


@dataclass(frozen=True, slots=True)
class Trouble:
    """Two runs whose step kills its worker, how often it did, and a run that is none of all this."""

    once: Mapping[str, Any]
    always: Mapping[str, Any]
    deaths: tuple[int, int]
    neighbour: Mapping[str, Any]


@pytest.fixture(scope="module")
def trouble(world: World, tmp_path_factory: pytest.TempPathFactory) -> Trouble:
    """All of it at once, until it is over: each time that a message was in vain, time passes."""
    folder = tmp_path_factory.mktemp("trouble")
    once, always = (world.start("crash", {"marker": str(folder / name), "always": name == "always"})
                    for name in ("once", "always"))  # fmt: skip
    for url in (world.queue(), world.queue("default")):
        world.emulator.client("sqs").send_message(QueueUrl=url, MessageBody=GARBAGE)
    neighbour = world.end(world.start("nap", {"name": "neighbour"}))
    until(lambda: died(folder / "once") and died(folder / "always"), "the first workers die")
    world.clock.advance(VISIBILITY_SECONDS)
    recovered = world.end(once)
    for deaths in range(2, DELIVERIES + 1):
        until(lambda: died(folder / "always") == deaths, f"worker {deaths} dies")  # noqa: B023 - asked at once
        world.clock.advance(VISIBILITY_SECONDS)
    given_up = world.end(always)
    return Trouble(recovered, given_up, (died(folder / "once"), died(folder / "always")), neighbour)


def died(marker: Path) -> int:
    return len(marker.read_text().splitlines()) if marker.exists() else 0


def test_a_step_whose_worker_dies_once_is_run_again(trouble: Trouble) -> None:
    assert (trouble.once["status"], trouble.once["result"]) == ("completed", "hello survivor")
    assert trouble.deaths[0] == 2


def test_a_step_that_kills_every_worker_fails_and_its_workflow_goes_on(trouble: Trouble) -> None:
    assert (trouble.always["status"], trouble.always["result"]) == ("completed", "hello worker_lost")
    assert trouble.deaths[1] == DELIVERIES


def test_a_message_that_nobody_can_take_ends_where_a_person_looks_and_stops_no_other(
    world: World, trouble: Trouble
) -> None:
    assert trouble.neighbour["status"] == "completed"
    dead = world.stack.outputs["DeadQueueUrl"]

    def refused_by_all() -> bool:
        world.clock.advance(VISIBILITY_SECONDS)
        return len(world.messages(dead)) == 2

    until(refused_by_all, "both are dead letters", pause_seconds=0.5)
    assert {message["Body"] for message in world.messages(dead)} == {GARBAGE}
    assert not world.messages(world.queue()) + world.messages(world.queue("default"))

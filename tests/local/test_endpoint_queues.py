"""Each endpoint of the dev server has a queue and senders of its own: one that hangs delays its own deliveries only."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.definition.targets import parse_hosts
from stepwell.local.database import Database
from stepwell.local.endpoint_queues import SENDERS
from stepwell.local.outgoing import Outgoing
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.endpoints import Notification, notification_json
from stepwell.runtime.notify.sender import Fate, Sender, Verdict
from stepwell.runtime.ports import Lane
from stepwell.runtime.steps.secrets import EnvironmentSecrets
from tests.api.kit import START_MS
from tests.runtime.test_notifications import notice

SECONDS = 30  # for what comes at once


class Held(Sender):
    """Holds each delivery to `slow` until it is let go, and notes each other."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__({}, EnvironmentSecrets({}), parse_hosts([]), clock)
        self.held, self.sent = queue.Queue[str](), queue.Queue[tuple[str, str]]()
        self.let_go = threading.Event()

    def send(self, notification: Notification) -> Verdict:
        if notification.endpoint == "slow":
            self.held.put(notification.id)
            assert self.let_go.wait(SECONDS)
        self.sent.put((notification.endpoint, notification.id))
        return Verdict(Fate.TAKEN, notification)


class World:
    def __init__(self, folder: Path) -> None:
        self.file, self.clock, self.stopping = folder / "out.sqlite", VirtualClock(START_MS), threading.Event()
        self.sender = Held(self.clock)
        self.outgoing = Outgoing(self.file, self.sender, self.clock, self.stopping)

    def serve(self, *names: str) -> None:
        one = {"secret": ["env:S"], "events": ["run.completed"], "workflows": None}
        self.outgoing.replace({"out": {name: {"url": f"https://{name}.test/", **one} for name in names}})

    def sent(self, count: int) -> list[str]:
        """The endpoints of so many deliveries, as they come."""
        return [self.sender.sent.get(timeout=SECONDS)[0] for _ in range(count)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stopping.set()
    world.sender.let_go.set()
    world.outgoing.close()


def test_an_endpoint_that_does_not_answer_delays_no_other(world: World) -> None:
    world.serve("slow", "quick")
    world.outgoing.post([notice(created_ms=number) for number in range(10)])
    assert world.sent(10) == ["quick"] * 10
    under_way = {world.sender.held.get(timeout=SECONDS) for _ in range(SENDERS)}
    assert len(under_way) == SENDERS
    assert world.sender.held.empty(), "so many at once, and no more"
    world.sender.let_go.set()
    assert world.sent(10) == ["slow"] * 10


def test_a_defect_takes_no_sender_away(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it kept from being sent comes again when its lease is over."""
    failures = iter([RuntimeError("a defect")] * SENDERS)

    def sent(notification: Notification) -> Verdict:
        if (error := next(failures, None)) is not None:
            raise error
        return Held.send(world.sender, notification)

    monkeypatch.setattr(world.sender, "send", sent)
    world.serve("odd")
    world.outgoing.post([notice(created_ms=number) for number in range(SENDERS + 1)])
    assert world.sent(1) == ["odd"]
    assert caplog.text.count("a notification to odd is sent later") == SENDERS


def test_an_endpoint_added_later_has_senders_and_one_removed_gets_nothing_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.serve("slow")
    world.outgoing.post([notice(created_ms=number) for number in range(5)])
    for _ in range(SENDERS):
        world.sender.held.get(timeout=SECONDS)
    world.serve("quick")
    assert "there is no such endpoint; its notifications are dropped: 5" in caplog.text
    world.sender.let_go.set()
    world.outgoing.post([notice()])
    assert sorted(world.sent(SENDERS + 1)) == ["quick", *["slow"] * SENDERS]
    world.serve("quick", "slow")
    world.outgoing.post([notice()])
    assert sorted(world.sent(2)) == ["quick", "slow"]


def test_the_deliveries_that_an_older_release_left_are_sent(world: World) -> None:
    database = Database(world.file)
    older = SqliteQueue(database, world.clock)
    for name in ("quick", "gone"):
        run_now(older.send(Lane.RESUME, notification_json(Notification(name, f"msg_{name}", {}))))
    assert older.receive((Lane.RESUME,), START_MS, 60_000) is not None, "under way as the server ended"
    database.close()
    world.serve("quick")
    assert world.sender.sent.get(timeout=SECONDS) == ("quick", "msg_quick")

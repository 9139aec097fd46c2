"""Four files tell what the time-out of an approval does, from its message to its record: no other takes part in it.

docs/architecture.md shows the same path to a reader. The log is not on it: there a token is read, and a record stored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import stepwell
from stepwell.engine.records import Kind
from stepwell.limits import DAY_MS, HOUR_MS
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Timer, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World

PACKAGE = Path(stepwell.__file__).parent
PATH = ("runtime/dispatch.py", "runtime/log/door.py", "engine/decide.py", "engine/waits/approval.py")
LOG = "runtime/log/logbook.py"  # what it calls is reading and storing
LOOKED_UP = {
    "runtime/log/messages.py": "the message as a queue carries it",
    "runtime/log/retries.py": "whether a worker may have begun with the message before",
    "runtime/log/standing.py": "a token, and the data beside it",
    "engine/token.py": "a token's data",
    "engine/table.py": "the rows of the table: whether a phase takes the input",
    "engine/stored/formats.py": "the number of the message's format",
    "engine/pushing.py": "whether this message wrote the last record, as for any message",
    "engine/waits/kind.py": "the kinds of waits by name",
}
FLOW = "workflow: flow\ntimeline:\n  - {name: hold, wait: WAIT}\n"
PLAIN = "{for: approval, timeout: 1d}"
ASKS_OTHERS = "{for: approval, approvers: {of: [ana], need: 1}, escalate: {after: 1d, to: [bo]}, timeout: 3d}"


@contextmanager
def followed(store: Any, names: set[str]) -> Iterator[None]:
    """Adds the files of the engine and the runtime that are entered, until the store is asked to append."""
    begins_log: list[FrameType] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if not file.is_relative_to(PACKAGE):
            return
        name = file.relative_to(PACKAGE).as_posix()
        if event == "call" and name == LOG:
            begins_log.append(frame)
        elif event == "return" and begins_log and begins_log[-1] is frame:
            begins_log.pop()
        elif event == "call" and not begins_log and name.startswith(("runtime/", "engine/")):
            names.add(name)

    before = sys.getprofile()
    store.before["append"] = lambda *_: sys.setprofile(before)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


async def timer_comes(world: World, message: dict[str, Any], names: set[str]) -> None:
    with followed(world.store, names):
        await dispatch(world.parts, Lane.RESUME, message, Unlimited())


@pytest.mark.parametrize(("wait", "kind"), [(PLAIN, Kind.RESUMED), (ASKS_OTHERS, Kind.RECEIVED)])
def test_an_approval_that_times_out_passes_four_files_from_the_message_to_the_record(wait: str, kind: Kind) -> None:
    world = World(FLOW.replace("WAIT", wait))
    run_id = world.start()
    world.deliver()
    world.clock.set(world.clock.now_ms() + DAY_MS + HOUR_MS)
    names: set[str] = set()
    run_now(timer_comes(world, to_json(Timer(run_id, 0)), names))
    assert [record.kind for record in run_now(world.service.records(run_id))] == [Kind.WAITING, kind]
    assert names - LOOKED_UP.keys() == {*PATH}


def test_the_page_for_contributors_shows_this_path() -> None:
    text = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| An approval times out |"))
    assert row == f"| An approval times out | {', '.join(f'`{name}`' for name in PATH)} |"

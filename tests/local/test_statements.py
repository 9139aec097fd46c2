"""How often a run on this machine asks its database: counted, so that it does not grow unseen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stepwell.local.database import Database, Values
from stepwell.local.pump import Held
from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start

STEPS = "def nothing():\n    return None\n"
STEP = "  - {{name: s{0}, run: python:steps.nothing}}\n"


def receive(local: Local) -> int:
    """Handles one message, as a worker of the dev server does. Returns how many there were."""
    now_ms = local.parts.ports.clock.now_ms()
    delivery = local.inbox.receive(ALL_LANES, now_ms, 60_000)
    if delivery is None:
        local.inbox.next_due_ms()
        return 0
    with local.repeated():
        run_now(dispatch(local.parts, delivery.lane, delivery.message, Held(delivery, local.parts.ports.clock)))
    local.inbox.delete(delivery)
    return 1


def ended(local: Local) -> str:
    run_id = run_now(local.parts.service.start(Start("chain", {}))).header.run_id
    while receive(local):
        pass
    return run_id


def test_a_chain_of_ten_steps_takes_five_statements_beside_its_records_and_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    (folder / "chain.yaml").write_text("workflow: chain\ntimeline:\n" + "".join(map(STEP.format, range(10))))
    local = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    ended(local)  # from now on the definition is known
    asked: Counter[str] = Counter()
    rows, change = Database.rows, Database.change

    def counted_rows(self: Database, sql: str, values: Values = ()) -> list[tuple[object, ...]]:
        asked["headers read" if "FROM runs" in sql else "of the queue" if "messages" in sql else "logs read"] += 1
        return rows(self, sql, values)

    def counted_change(self: Database, sql: str, values: Values, *, lazily: bool = False) -> int:
        kind = "headers changed" if "runs" in sql else "of the queue" if "messages" in sql else "records"
        asked[kind] += 1
        return change(self, sql, values, lazily=lazily)

    monkeypatch.setattr(Database, "rows", counted_rows)
    monkeypatch.setattr(Database, "change", counted_change)
    run_id = ended(local)
    assert asked == {
        "of the queue": 1 + 3 + 2,  # it is sent; received, leased, deleted; none is there, and when the next is due
        "headers read": 2,  # for the first step, and for its line in the log and its snapshot once it has ended
        "logs read": 1,
        "headers changed": 2,  # running, completed
        "records": 10,
    }
    assert run_now(local.parts.service.header(run_id)).status == "completed"
    local.close()

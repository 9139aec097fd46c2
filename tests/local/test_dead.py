"""Dead letters of this machine: shown, and sent back."""

from __future__ import annotations

from pathlib import Path

from stepwell.engine.names import iso
from stepwell.local.database import Database
from stepwell.local.dead import SqliteDeadQueue
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.calls.dead import show_letter
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane

NOW_MS = 1_700_000_000_000


def test_a_message_that_failed_five_times_is_a_dead_letter_and_is_sent_back_anew(tmp_path: Path) -> None:
    clock, database = VirtualClock(NOW_MS), Database(tmp_path / "stepwell.db", "NORMAL")
    queue, dead = SqliteQueue(database, clock), SqliteDeadQueue(database, clock)
    for message in ({"type": "deadline", "run_id": "r1", "v": 2, "put_off": 3}, {"type": "odd"}, {"type": "late"}):
        run_now(queue.send(Lane.RESUME, message))
    for count in range(5):
        taken = [queue.receive(ALL_LANES, NOW_MS, 1_000) for _ in range(2 if count else 3)]
        for delivery in taken:
            assert delivery is not None
            late = delivery.message["type"] == "late"
            queue.release(delivery, NOW_MS + 3_600_000 if late else NOW_MS)
    first, odd = (show_letter(one) for one in run_now(dead.letters(10)))
    assert (first["run_id"], first["type"], first["queue"], first["deliveries"]) == ("r1", "deadline", "resume", 5)
    assert str(first["why"]).endswith(f"it comes again by itself at {iso(NOW_MS)}")
    assert "cannot be read" in odd["why"]
    assert run_now(dead.send_back(None)) == [first["id"]]
    again = queue.receive(ALL_LANES, NOW_MS, 1_000)
    while again is not None and again.message["type"] != "deadline":
        again = queue.receive(ALL_LANES, NOW_MS, 1_000)
    assert again is not None
    assert (again.deliveries, again.message) == (1, {"type": "deadline", "run_id": "r1", "v": 2, "again": True})
    assert run_now(dead.send_back(frozenset({"99"}))) == []
    assert run_now(dead.delete(frozenset({"99", str(odd["id"])}))) == [odd["id"]]
    assert run_now(dead.letters(10)) == []
    database.close()

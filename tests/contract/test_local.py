"""What only the local adapters have: purging, the claim on a folder, clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.engine.records import Status
from stepwell.errors import Conflict, PortError
from stepwell.local.blobs import FolderBlobs
from stepwell.local.folder import claim_folder
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.stores.clocks import RealClock
from tests.contract.kit import NOW_MS, ORDER, LocalStore, event, header, other_process, run, waiter

CLAIM = """
import sys
from stepwell.local.folder import claim_folder
claim = claim_folder(sys.argv[1])
print("claimed", flush=True)
sys.stdin.read()
"""


def test_purging_drops_ended_runs_whose_time_is_over_with_all_they_had(local_store: LocalStore) -> None:
    store = local_store
    kept = {"live": (Status.RUNNING, 5), "no expiry": (Status.FAILED, 0), "later": (Status.COMPLETED, NOW_MS + 1)}
    for name, (status, expires_ms) in {**kept, "gone": (Status.COMPLETED, NOW_MS)}.items():
        run(store.create_run(header(name, status=status, expires_ms=expires_ms, tags={"t": "x"})))
        run(store.append(name, "0", 0, "a"))
        run(store.append(name, "0/0.1", 0, "b"))
        run(store.save_snapshot(name, "0", 0, "s"))
        run(store.arrive(name, "j", "old"))
        run(store.put_waiter(waiter(name)))
    assert store.purge(NOW_MS) == 1
    assert {found.run_id for found in run(store.list_runs(RunQuery(tag=("t", "x")))).headers} == set(kept)
    assert {found.run_id for found in run(store.waiters(ORDER))} == set(kept)
    assert run(store.get_run("gone")) is None
    assert not run(store.read_log("gone", "0/0.1"))
    assert run(store.load("gone", "0")).snapshot is None
    assert run(store.arrive("gone", "j", "new")).members == {"new"}
    assert len(run(store.read_log("live", "0"))) == 1


def test_purging_drops_many_runs(local_store: LocalStore) -> None:
    for number in range(250):
        run(local_store.create_run(header(f"r{number}", status=Status.CANCELLED, expires_ms=1)))
    assert local_store.purge(NOW_MS) == 250
    assert run(local_store.stats()) == []


def test_purging_drops_events_past_their_expiry_consumed_or_not(local_store: LocalStore) -> None:
    store = local_store
    for name, expires_ms in (("old", NOW_MS), ("old taken", NOW_MS), ("new", NOW_MS + 1), ("new taken", NOW_MS + 1)):
        run(store.put_event(event(name, NOW_MS - 9, expires_ms=expires_ms)))
    run(store.append("r1", "0", 0, "a", consumes=(ORDER, "old taken")))
    run(store.append("r1", "0", 1, "a", consumes=(ORDER, "new taken")))
    store.purge(NOW_MS)
    names = ("old", "old taken", "new", "new taken")
    assert [name for name in names if run(store.get_event(ORDER, name))] == ["new", "new taken"]
    assert [found.id for found in run(store.pending_events(ORDER, 0))] == ["new"]


def test_a_folder_has_one_owner_until_it_gives_it_back(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "new" / "data"), pytest.raises(Conflict) as caught:
        claim_folder(tmp_path / "new" / "data")
    assert caught.value.code == "folder_in_use"
    claim_folder(tmp_path / "new" / "data").close()


def test_a_killed_owner_leaves_no_claim_behind(tmp_path: Path) -> None:
    with other_process(CLAIM, [str(tmp_path)]) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "claimed\n"
        with pytest.raises(Conflict, match=str(owner.pid)):
            claim_folder(tmp_path)
        owner.kill()
        owner.wait()
        claim_folder(tmp_path).close()


def test_a_damaged_blob_is_not_given_out(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    reference = run(blobs.put(b"good"))
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(b"bad")
    with pytest.raises(PortError, match="damaged"):
        run(blobs.get(reference))


def test_a_blob_that_cannot_be_written_is_a_port_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PortError):
        run(FolderBlobs(tmp_path / "file").put(b"a"))


def test_putting_a_blob_leaves_one_file(tmp_path: Path) -> None:
    run(FolderBlobs(tmp_path).put(b"a"))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_virtual_clock_moves_only_when_told_to() -> None:
    clock = VirtualClock(5)
    assert clock.now_ms() == 5
    run(clock.sleep_ms(10))
    clock.advance(1)
    assert clock.now_ms() == 16
    clock.set(3)
    assert clock.now_ms() == 3


def test_the_real_clock_tells_milliseconds_of_our_time() -> None:
    clock = RealClock()
    before = clock.now_ms()
    run(clock.sleep_ms(0))
    assert NOW_MS < before <= clock.now_ms()

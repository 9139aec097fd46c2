"""A power cut, right after each commit that waited for the disk: what is written meanwhile is undone, and redone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell.engine.records import Status
from stepwell.local import wiring
from stepwell.local.database import Database, Execute, Values
from stepwell.local.wiring import DATABASE_FILE, Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_apart, run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.starting import Start

LEASE_MS = 60_000
STEPS = "def work(item=0):\n    return item\n"
WORKFLOWS = {
    "chain": "timeline:\n" + "".join(f"  - {{name: s{number}, run: python:steps.work}}\n" for number in range(10)),
    "fan": """nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ [1, 2, 3] }}", as: item}]}
  work: {run: python:steps.work, input: {item: "{{ branch.item }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
""",
    "waits": "timeline:\n  - {name: go, wait: {for: event, name: go, key: '{{ run.id }}', timeout: 1h}}\n",
    "parent": "nodes:\n  call: {run: workflow:waits}\n",
}


class Disk(Database):
    """A database that keeps what is on the disk for good after each commit that waited for it."""

    states: Sequence[dict[str, bytes]] = ()

    def change(self, sql: str, values: Values, *, lazily: bool = False) -> int:
        changed = super().change(sql, values, lazily=lazily)
        self._keep(lazily=lazily)
        return changed

    @contextmanager
    def transaction(self, *, lazily: bool = False) -> Iterator[Execute]:
        with super().transaction(lazily=lazily) as execute:
            yield execute
        self._keep(lazily=lazily)

    def _keep(self, *, lazily: bool) -> None:
        if not lazily and Path(self.path).name == DATABASE_FILE:
            files = (Path(self.path), Path(f"{self.path}-wal"))
            Disk.states = [*Disk.states, {file.name: file.read_bytes() for file in files}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(wiring, "Database", Disk)
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    for name, text in WORKFLOWS.items():
        (folder / f"{name}.yaml").write_text(f"workflow: {name}\n{text}")
    return folder


@contextmanager
def opened(folder: Path, data: Path) -> Iterator[Local]:
    local = open_local(data, folder, load_folder(folder).graphs)
    try:
        local.inbox.reclaim()
        Disk.states = []
        yield local
    finally:
        local.stopping.set()
        local.close()


def work_off(local: Local) -> None:
    """Handles what is due, as the pump does."""
    while delivery := local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), LEASE_MS):
        with local.repeated():
            run_apart(dispatch(local.parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
        local.inbox.delete(delivery)


def started(local: Local, workflow: str, *, idle: bool = False) -> str:
    return run_now(local.parts.service.start(Start(workflow, create_only=idle))).header.run_id


def send(local: Local) -> int:
    """Sends each run the event that it waits for. Returns how many there are."""
    query = RunQuery(workflow="waits", statuses=frozenset({Status.WAITING}))
    waiting = run_now(local.parts.service.runs(query)).headers
    for header in waiting:
        run_now(local.parts.service.send_event("go", {}, run_id=header.run_id))
    return len(waiting)


def status(local: Local, run_id: str) -> str:
    return run_now(local.parts.service.header(run_id)).status.value


def commits(act: Callable[[], object]) -> int:
    """How often it waits for the disk."""
    before = len(Disk.states)
    act()
    return len(Disk.states) - before


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_run_survives_a_power_cut_after_each_commit(workflow: str, folder: Path, tmp_path: Path) -> None:
    """What an answered call has begun goes on, and whoever was answered about an event need not send it again."""
    with opened(folder, tmp_path / "data") as local:
        run_id = started(local, workflow)
        begun = len(Disk.states) - 1
        work_off(local)
        is_sent = send(local) > 0
        sent = len(Disk.states) - 1
        work_off(local)
        assert status(local, run_id) == "completed"
        states = Disk.states
    for number, files in enumerate(states[begun:], begun):
        data = tmp_path / f"data{number}"
        data.mkdir()
        for name, content in files.items():
            (data / name).write_bytes(content)
        with opened(folder, data) as local:
            work_off(local)
            if is_sent and number < sent:
                assert send(local) == 1
                work_off(local)
            assert status(local, run_id) == "completed", f"after commit {number}"


def test_a_run_waits_for_the_disk_at_its_start_and_once_for_each_record(folder: Path, tmp_path: Path) -> None:
    with opened(folder, tmp_path / "data") as local:
        assert commits(lambda: started(local, "chain")) == 1  # the message that sets it going, and what is before it
        assert commits(lambda: work_off(local)) == 10


def test_a_run_that_is_only_created_waits_for_the_disk(folder: Path, tmp_path: Path) -> None:
    with opened(folder, tmp_path / "data") as local:
        assert commits(lambda: started(local, "chain", idle=True)) == 1


def test_an_event_waits_for_the_disk_where_it_is_accepted_and_once_for_each_record(
    folder: Path, tmp_path: Path
) -> None:
    with opened(folder, tmp_path / "data") as local:
        started(local, "waits")
        assert commits(lambda: work_off(local)) == 1  # the wait
        assert commits(lambda: send(local)) == 1
        assert commits(lambda: work_off(local)) == 2  # what resumed it, and its end


def test_a_branch_waits_for_the_disk_once(folder: Path, tmp_path: Path) -> None:
    with opened(folder, tmp_path / "data") as local:
        started(local, "fan")
        assert commits(lambda: work_off(local)) == 1 + 3 + 2  # the fork, its branches, the join and its node

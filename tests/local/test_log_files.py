"""A run that is deleted, or whose retention is over, leaves no line in the files of a data folder."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from stepwell.errors import PortError
from stepwell.limits import DAY_MS
from stepwell.local import log_files
from stepwell.local.folder import LOGS_FILE
from stepwell.local.log_files import LocalRunLogs, LogFile, logging_runs
from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.calls.batching import Batch
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.stores.log_lines import Asked

STEPS = """
import logging


def tell(who):
    logging.getLogger("shop").warning("pays: %s", who)
    raise ValueError(f"no account of {who}")
"""
FLOW = "workflow: order\nretention: 2d\ntimeline: [{name: tell, run: python:steps.tell, timeout: 10s}]\n"
ANA, BEN = "ana-7731-of-berlin", "ben-1234-of-bonn"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "order.yaml").write_text(FLOW)
    data = tmp_path / "data"
    with logging_runs(data) as lines:
        opened = open_local(data, tmp_path, load_folder(tmp_path).graphs, lines=lines)
        yield opened
        opened.close()


def _run(local: Local, who: str) -> str:
    run_id = run_now(local.parts.service.start(Start("order", {"who": who}, tags={"customer": who}))).header.run_id
    _drain(local)
    return run_id


def _drain(local: Local) -> None:
    clock = local.parts.ports.clock
    while (delivery := local.inbox.receive(ALL_LANES, clock.now_ms(), DAY_MS)) is not None:
        run_now(dispatch(local.parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
        local.inbox.delete(delivery)


def _kept(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob(f"{LOGS_FILE}*"))


def test_a_deleted_run_leaves_no_line_and_others_keep_theirs(local: Local, tmp_path: Path) -> None:
    gone, other = _run(local, ANA), _run(local, BEN)
    assert f"ValueError: no account of {ANA}" in _kept(tmp_path)
    run_now(local.parts.eraser.delete(gone))
    run_now(local.parts.eraser.scrub())
    assert not any(text in _kept(tmp_path) for text in (ANA, gone))
    assert f"pays: {BEN}" in _kept(tmp_path)
    assert other in _kept(tmp_path)


def test_a_purge_by_tag_looks_through_the_lines_once(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[str] = []
    rewrite = log_files._rewrite
    for who in (ANA, BEN, ANA, ANA):
        _run(local, who)

    def counted(path: Path, gone: set[str]) -> None:
        rewritten.append(path.name)
        rewrite(path, gone)

    monkeypatch.setattr(log_files, "_rewrite", counted)
    run_now(local.parts.service.batch(Batch("purge", tag=["customer", ANA])))
    _drain(local)
    assert rewritten == [LOGS_FILE]
    assert (ANA in _kept(tmp_path), BEN in _kept(tmp_path)) == (False, True)


def test_a_run_whose_retention_is_over_leaves_no_line(local: Local, tmp_path: Path) -> None:
    _run(local, ANA)
    assert local.purge(local.parts.ports.clock.now_ms() + 3 * DAY_MS) == 1
    assert ANA not in _kept(tmp_path)


def test_a_deletion_that_died_before_the_lines_is_finished_at_the_next_start(local: Local, tmp_path: Path) -> None:
    run_now(local.parts.eraser.delete(_run(local, ANA)))  # and no `scrub`
    assert ANA in _kept(tmp_path)
    local.forget_lines()
    assert ANA not in _kept(tmp_path)


def _logged(folder: Path, *lines: tuple[str, str]) -> LogFile:
    file = LogFile(folder)
    for run_id, message in lines:
        file.handle(_record(run_id, message))
    return file


def _record(run_id: str, message: str) -> logging.LogRecord:
    record = logging.LogRecord("shop", logging.INFO, "", 0, message, None, None)
    record.run_id = run_id
    return record


def _messages(folder: Path, run_id: str) -> list[str]:
    return [line.message for line in run_now(LocalRunLogs(folder).read(Asked(run_id, 0, None, 500))).lines]


def test_who_logs_goes_on_in_the_new_file(tmp_path: Path) -> None:
    file = _logged(tmp_path, ("a", "one"), ("b", "two"))
    file.forget(lambda _: {"a"})
    file.handle(_record("b", "three"))
    file.close()
    assert (_messages(tmp_path, "a"), _messages(tmp_path, "b")) == ([], ["two", "three"])
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()] == [(LOGS_FILE, 0o600)]


def test_what_is_logged_while_the_runs_are_looked_up_is_kept(tmp_path: Path) -> None:
    """The look-up holds no lock, so it may log itself."""
    file = _logged(tmp_path, ("a", "one"))

    def gone_of(run_ids: set[str]) -> set[str]:
        file.handle(_record("b", "meanwhile"))
        return run_ids

    file.forget(gone_of)
    file.close()
    assert (_messages(tmp_path, "a"), _messages(tmp_path, "b")) == ([], ["meanwhile"])


def test_the_older_file_forgets_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "LOG_FILE_BYTES", 2_000)
    file = _logged(tmp_path, *((run_id, "x" * 100) for run_id in "ababababababab"))
    assert len(list(tmp_path.iterdir())) == 2
    before = len(_messages(tmp_path, "b"))
    file.forget(lambda _: {"a"})
    file.close()
    assert (len(_messages(tmp_path, "a")), len(_messages(tmp_path, "b"))) == (0, before)


@pytest.mark.parametrize("dies_in", ["pathlib.Path.replace", "os.fsync"])
def test_a_crash_amid_a_rewrite_loses_no_line_and_the_next_one_ends_it(
    dies_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise OSError("the power is gone")

    file = _logged(tmp_path, ("a", "one"), ("b", "two"))
    with monkeypatch.context() as broken:
        broken.setattr(dies_in, dies)
        with pytest.raises(PortError, match="the power is gone"):
            file.forget(lambda _: {"a"})
    assert (_messages(tmp_path, "a"), _messages(tmp_path, "b")) == (["one"], ["two"])
    file.forget(lambda _: {"a"})
    file.close()
    assert (_messages(tmp_path, "a"), _messages(tmp_path, "b")) == ([], ["two"])
    assert [path.name for path in tmp_path.iterdir()] == [LOGS_FILE]


def test_two_deletions_at_once_rewrite_the_lines_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _logged(tmp_path, ("a", "one"), ("b", "two"), ("c", "three"))
    other, fsync = Thread(target=lambda: file.forget(lambda _: {"b"})), os.fsync

    def sync(descriptor: int) -> None:
        if not other.ident:
            other.start()
            other.join(0.2)  # it waits for this one
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", sync)
    file.forget(lambda _: {"a"})
    other.join()
    file.close()
    assert [_messages(tmp_path, run_id) for run_id in "abc"] == [[], [], ["three"]]


def test_what_a_crashed_rewrite_left_goes_even_if_no_run_does(tmp_path: Path) -> None:
    file = _logged(tmp_path, ("a", "one"))
    left = tmp_path / f"{LOGS_FILE}.new"
    left.write_text(json.dumps({"run_id": "b", "message": ANA}))
    file.forget(lambda _: set())
    file.close()
    assert not left.exists()


def test_a_line_that_a_crash_has_cut_is_read_over_and_goes(tmp_path: Path) -> None:
    _logged(tmp_path, ("a", "one")).close()
    with (tmp_path / LOGS_FILE).open("a") as file:
        file.write('{"id": 7, "run_id": "a", "mess\n')
    assert _messages(tmp_path, "a") == ["one"]
    _logged(tmp_path).forget(lambda run_ids: run_ids - {"a"})
    assert "mess\n" not in (tmp_path / LOGS_FILE).read_text()
    assert _messages(tmp_path, "a") == ["one"]


@pytest.mark.parametrize("cut", [b'{"id": 7, "run_id": "a", "mess', b'{"id": 7, "run_id": "a", "message": "\xff'])
def test_the_lines_after_one_that_a_crash_has_cut_are_read(tmp_path: Path, cut: bytes) -> None:
    _logged(tmp_path, ("a", "one")).close()
    with (tmp_path / LOGS_FILE).open("ab") as file:
        file.write(cut)
    _logged(tmp_path, ("a", "two"), ("a", "three")).close()
    assert _messages(tmp_path, "a") == ["one", "two", "three"]


def _whole(file: LogFile) -> None:
    file.doRollover()
    file.handle(_record("a", "after"))


def _begun(file: LogFile) -> None:
    """The older file is gone, and the newer one has its old name still."""
    Path(f"{file.baseFilename}.1").unlink()


def _half(file: LogFile) -> None:
    """The newer file is the older one, and there is no newer one yet."""
    file.doRollover()


@pytest.mark.parametrize("rotate", [_whole, _begun, _half])
@pytest.mark.parametrize("before", [1, 2])
def test_a_rotation_while_the_files_are_opened_loses_no_line_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotate: Callable[[LogFile], None], before: int
) -> None:
    file = _logged(tmp_path, ("a", "old"))
    file.doRollover()
    file.handle(_record("a", "new"))
    opened, original = count(1), Path.open

    def opening(path: Path, *args: Any, **more: Any) -> Any:
        if "r+b" not in args and next(opened) == before:  # else it is whoever logs
            rotate(file)
        return original(path, *args, **more)

    monkeypatch.setattr(Path, "open", opening)
    found = _messages(tmp_path, "a")
    file.close()
    assert [one for one in found if one != "old"] in (["new"], ["new", "after"])  # the old ones may be gone


def test_a_reader_finds_no_gap_in_the_lines_while_the_files_are_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "LOG_FILE_BYTES", 3_000)
    file, ended = LogFile(tmp_path), Event()

    def logs() -> None:
        for number in range(5_000):
            file.handle(_record("a", str(number)))
        ended.set()

    writer = Thread(target=logs)
    writer.start()
    while not ended.is_set():
        found = [int(one) for one in _messages(tmp_path, "a")]
        assert not found or found == list(range(found[0], found[-1] + 1))
    writer.join()
    file.close()
    assert _messages(tmp_path, "a")[-1] == "4999"

"""The data folder is its owner's alone: what the dev server makes, and what was there before with wider modes."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.errors import Conflict
from stepwell.limits import CLAIM_CHECK_BYTES
from stepwell.local.folder import claim_folder
from stepwell.local.wiring import open_local
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")

QUICK = "workflow: quick\nnodes:\n  a: {}\n"


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(data: Path) -> dict[str, str]:
    """Those of the folder and of all in it, by path, where they are wider than they should be."""
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (data, *data.rglob("*"))}
    return {str(path): oct(mode) for path, mode in found.items() if mode != (0o700 if path.is_dir() else 0o600)}


def use(data: Path) -> None:
    """A run whose input is large enough for a blob, and that ends."""
    graph = compile_definition(QUICK, "quick.yaml").graph
    assert graph is not None
    local = open_local(data, data.parent, (graph,))
    run_now(local.parts.service.start(Start("quick", {"text": "x" * CLAIM_CHECK_BYTES})))
    run_now(local.parts.ports.blobs.put(b"large"))
    local.close()


def test_what_the_dev_server_makes_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with claim_folder(data):
        use(data)
        assert {path.name for path in data.iterdir()} >= {"stepwell.db", "links.key", "owner.lock", "blobs"}
        assert modes(data) == {}


def test_the_files_that_sqlite_makes_beside_the_database_are_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with claim_folder(data):
        local = open_local(data, tmp_path)
        assert {path.name for path in data.glob("stepwell.db-*")} == {"stepwell.db-wal", "stepwell.db-shm"}
        assert modes(data) == {}
        local.close()


def test_wider_modes_from_before_are_narrowed_but_the_users_own_files_are_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    use(data)
    (data / "runs").mkdir()
    (data / "runs" / "r1.jsonl").touch()
    for path in (data, *data.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    own = data / "notes.txt"
    own.touch(0o644)
    with claim_folder(data):
        assert modes(data) == {str(own): "0o644"}


def test_a_folder_whose_mode_cannot_be_changed_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    with caplog.at_level(logging.WARNING), claim_folder(tmp_path):
        assert f"others may read the data folder {tmp_path}" in caplog.text


@pytest.mark.parametrize(("left", "is_told"), [("4711\n", False), ("4711 serves\n", True), ("", False)])
def test_a_folder_of_an_older_release_tells_of_no_killed_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str, is_told: bool
) -> None:
    """Its servers left their ids, however they ended."""
    (tmp_path / "owner.lock").write_text(left)
    with claim_folder(tmp_path), pytest.raises(Conflict, match=rf"in use by process {os.getpid()} \("):
        claim_folder(tmp_path)
    assert ("process 4711, was killed" in caplog.text) is is_told

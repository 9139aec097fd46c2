"""The thread of the dev server that deploys what changes in the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watchfiles import Change

from stepwell.local import reloading
from stepwell.local.reloading import Reloader
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.starts.folder import load_folder
from tests.local.kit import until


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = open_local(tmp_path / "data", tmp_path)
    yield made
    made.close()


def test_a_reload_that_fails_for_whatever_reason_is_told_and_the_next_change_is_taken_up(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(folder: Path) -> Any:
        if not tried:
            tried.append("broken")
            raise ZeroDivisionError("a defect")
        tried.append("good")
        return load_folder(folder)

    tried: list[str] = []
    change = {(Change.modified, str(tmp_path / "shop.py"))}
    monkeypatch.setattr(reloading, "load_folder", load)
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: iter([change, change]))
    Reloader(local, tmp_path, lambda _: None).start()
    until(lambda: tried == ["broken", "good"], "the second change")
    assert "could not reload the folder; the previous version stays" in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text

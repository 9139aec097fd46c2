"""The thread of the dev server that deploys what changes in the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from watchfiles import Change

from stepwell.local import reloading
from stepwell.local.reloading import Reloader, stamps
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.folder.loading import load_folder
from tests.local.kit import until

GOOD = "workflow: order\ntimeline: [{name: nap, run: python:shop.nap}]\n"


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


def test_a_file_that_goes_while_the_folder_is_looked_at_does_not_end_the_watching(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An editor writes another file and renames it."""

    def looked(folder: Path) -> Any:
        tried.append("gone" if not tried else "there")
        if tried == ["gone"]:
            raise FileNotFoundError("shop.py~")
        return stamps(folder)

    tried: list[str] = []
    caplog.set_level("INFO", "stepwell.dev")
    reloader = Reloader(local, tmp_path, lambda _: None, seen=stamps(tmp_path))
    (tmp_path / "order.yaml").write_text(GOOD)
    monkeypatch.setattr(reloading, "stamps", looked)
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: iter([set(), set()]))
    reloader.start()
    until(lambda: "workflow order: added" in caplog.text, "the missed change")
    assert tried == ["gone", "there"]


def test_a_warning_is_told_once_and_a_file_that_is_right_again_is_named(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who saves a file sees what is new about it, and not all warnings of the folder again."""
    caplog.set_level("INFO", "stepwell.dev")
    order, other = tmp_path / "order.yaml", tmp_path / "other.yaml"
    seen: list[list[str]] = []

    def saves() -> Iterator[set[tuple[Change, str]]]:
        for text in (GOOD, "timeline: [", "timeline: [", f"# higher up\n{GOOD}"):
            order.write_text(text)
            caplog.clear()
            yield {(Change.modified, str(order))}
            seen.append([record.getMessage().splitlines()[0].removeprefix(f"{tmp_path}/") for record in caplog.records])

    other.write_text(GOOD.replace("order", "other"))
    (tmp_path / "shop.py").write_text("def nap() -> None: ...\n")
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: saves())
    Reloader(local, tmp_path, lambda _: None, load_folder(tmp_path).problems).start()
    until(lambda: len(seen) == 4, "the last save")
    first, broken, still, mended = seen
    assert first[0] == "order.yaml:2:12: warning step_without_timeout: the step `nap` has no timeout"
    assert not any("other.yaml" in line for line in (*first, *broken, *mended))  # it was told of at the start
    assert broken[0].startswith("order.yaml:1:1: error bad_syntax")
    assert still == broken
    assert "order.yaml has no errors any more" in mended


def test_many_warnings_of_a_kind_are_told_in_one(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steps = ", ".join(f"{{name: s{number}, run: python:shop.nap}}" for number in range(9))
    (tmp_path / "shop.py").write_text("def nap() -> None: ...\n")
    texts = [f"workflow: order\ntimeline: [{steps}]\n"]
    (told,) = told_of_saves(local, tmp_path / "order.yaml", texts, monkeypatch, caplog)
    (untimed,) = [line for line in told if "step_without_timeout" in line]
    assert "the step `s0` has no timeout, and 8 others like it" in untimed


def told_of_saves(
    local: Local, file: Path, texts: Sequence[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> list[list[str]]:
    """What the server logs after each of these texts was saved in the file."""
    seen: list[list[str]] = []

    def saves() -> Iterator[set[tuple[Change, str]]]:
        for text in texts:
            file.write_text(text)
            caplog.clear()
            yield {(Change.modified, str(file))}
            seen.append(caplog.messages)

    monkeypatch.setattr(reloading, "watch", lambda *_, **__: saves())
    Reloader(local, file.parent, lambda _: None, load_folder(file.parent).problems).start()
    until(lambda: len(seen) == len(texts), "the last save")
    return seen


def test_a_new_version_that_is_served_with_an_error_is_not_said_to_be_the_last_good_one(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step of a limit that there is not is an error of one step: the rest of its workflow is served."""
    caplog.set_level("INFO", "stepwell.dev")
    (tmp_path / "order.yaml").write_text(GOOD)
    (tmp_path / "shop.py").write_text("def nap() -> None: ...\n")
    texts = (GOOD, GOOD.replace("shop.nap}", "shop.nap, throttle: nobody}"), "timeline: [")
    seen = told_of_saves(local, tmp_path / "order.yaml", texts, monkeypatch, caplog)
    assert seen[1][-2:] == [
        "workflow order: changed; new runs take the new version",
        "1 file has errors: their workflows are served all the same",
    ]
    assert seen[2][-1] == "1 file has errors: the last good version of their workflows stays"


def test_a_module_that_python_cannot_compile_is_told_to_have_runs_wait(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The definition of a durable function stays, and its code is that of the file."""
    caplog.set_level("INFO", "stepwell.dev")
    flow = "from stepwell import workflow\n@workflow\nasync def flow(ctx): ...\n"
    (tmp_path / "flow.py").write_text(flow)
    seen = told_of_saves(local, tmp_path / "flow.py", (flow, flow.replace(": ...", " ...")), monkeypatch, caplog)
    assert seen[1][-1] == (
        "1 file has errors: the last good version of their workflows stays; "
        "a run that needs the code of a module with errors waits for it"
    )


def test_a_missing_limit_is_logged_with_its_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "order.yaml").write_text(GOOD.replace("shop.nap", "shop.nap, timeout: 1m, throttle: none"))
    reloading.tell_problems(load_folder(tmp_path).problems)
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path}/order.yaml:2:")
    assert " error unknown_limit: " in line


def test_a_change_between_the_reading_of_the_folder_and_its_watching_is_taken_up(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is saved while the server starts was served in its old version until the next save."""
    order = tmp_path / "order.yaml"
    order.write_text(GOOD)
    seen = stamps(tmp_path)
    order.write_text(GOOD.replace("order", "later"))
    os.utime(order, ns=(0, 0))
    looks: list[int] = []

    def nothing_happens() -> Iterator[set[tuple[Change, str]]]:
        for _ in range(3):
            yield set()
            looks.append(len(reloads))

    reloads: list[set[Path]] = []
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: nothing_happens())
    monkeypatch.setattr(Reloader, "_reload", lambda _, changed: reloads.append(changed))
    Reloader(local, tmp_path, lambda _: None, (), seen).start()
    until(lambda: len(looks) == 3, "the looks")
    assert (reloads, looks) == ([{order}], [1, 1, 1])


def test_reloaded_modules_of_one_name_are_told_apart(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stepwell.dev")
    monkeypatch.chdir(tmp_path)
    paths = (tmp_path / "workflows" / "orders.py", tmp_path / "shop" / "orders.py", Path("/elsewhere/orders.py"))
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: iter([{(Change.modified, str(path)) for path in paths}]))
    Reloader(local, tmp_path, lambda _: None).start()
    told = "reloaded modules: /elsewhere/orders.py, shop/orders.py, workflows/orders.py"
    until(lambda: told in caplog.text, "the reload")


@pytest.mark.parametrize("text", ["timeline: [", "workflow: fresh\ntimeline: [{nme: nap}]\n"])
def test_a_new_file_with_errors_is_not_said_to_be_served(
    text: str, local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stepwell.dev")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.yaml").write_text(GOOD)
    (tmp_path / "shop.py").write_text("def nap() -> None: ...\n")
    (told,) = told_of_saves(local, tmp_path / "fresh.yaml", [text], monkeypatch, caplog)
    assert told[-1] == "1 file has errors: until fresh.yaml is right, its workflow is not served"


def test_a_file_with_errors_that_is_renamed_is_not_said_to_be_right(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stepwell.dev")
    file, seen = tmp_path / "order.yaml", list[str]()

    def renamed() -> Iterator[set[tuple[Change, str]]]:
        file.rename(tmp_path / "order.yaml.bak")
        yield {(Change.deleted, str(file))}
        seen.extend(caplog.messages)

    file.write_text("timeline: [")
    monkeypatch.setattr(reloading, "watch", lambda *_, **__: renamed())
    Reloader(local, tmp_path, lambda _: None, load_folder(tmp_path).problems).start()
    until(lambda: bool(seen), "the last change")
    assert f"{file} is gone" in seen
    assert not any("no errors any more" in line for line in seen)

"""Errors of the operating system: a person gets a line with what to do, wherever it happens."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stepwell.cli.deploying.synthesis import synthesise
from stepwell.errors import UserError

from .conftest import Cli


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Makes every text file fail to be written."""

    def write_text(self: Path, *_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "write_text", write_text)


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EACCES, "no_permission"),
     (errno.EROFS, "no_permission")],
)  # fmt: skip
def test_a_project_that_cannot_be_written_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    failing(monkeypatch, number)
    result = cli("init", str(tmp_path / "shop"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"[{code}]\n  hint: " in result.stderr


@pytest.mark.parametrize("at", ["mkdir", "write_text"])
def test_a_full_disk_is_told_with_the_file_that_could_not_be_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A write that fails names no file, unlike an open."""

    def fail(self: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, at, fail)
    result = cli("init", str(tmp_path / "shop"))
    assert result.exit_code == 2
    assert f"error: cannot write {tmp_path / 'shop'}{os.sep}" in result.stderr
    assert ": no space left on device [disk_full]" in result.stderr


def test_a_path_that_cannot_be_is_told_without_a_traceback(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, code in ((tmp_path / "file" / "x", "not_a_folder"), (Path("/proc/none"), "no_such_file")):
        result = cli("init", str(place))
        assert result.exit_code == 2
        assert f"[{code}]\n  hint: " in result.stderr


def test_another_error_of_the_system_keeps_its_traceback(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, errno.EMFILE)
    result = cli("init", str(tmp_path / "shop"))
    assert isinstance(result.exception, OSError)


@pytest.mark.parametrize(
    "said",
    [
        "OSError: [Errno 28] No space left on device: 'a'",
        "error: failed to write: No space left on device (os error 28)",
        "Error: ENOSPC: no space left on device, write",
    ],
    ids=["Python", "uv", "Node"],
)
def test_a_disk_that_fills_up_while_a_template_is_made_is_told_as_such(tmp_path: Path, said: str) -> None:
    (tmp_path / "app.py").write_text(f"import sys; sys.exit({said!r})")
    (tmp_path / "cdk.json").write_text('{"app": "python app.py"}')
    with pytest.raises(UserError, match=r"the disk is full: .*[nN]o space left") as told:
        synthesise(tmp_path, {}, tmp_path / "cdk.out")
    assert told.value.code == "disk_full"


def test_an_app_that_fails_otherwise_is_shown_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError('no price')")
    (tmp_path / "cdk.json").write_text('{"app": "python app.py"}')
    with pytest.raises(Exception, match=r"the CDK app failed: Traceback(?s:.*)no price"):
        synthesise(tmp_path, {}, tmp_path / "cdk.out")

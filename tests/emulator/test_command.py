"""`stepwell dev --aws` as people use it: a process with a port, that ends with all it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from stepwell.api.console import is_built
from stepwell.cli.main import app
from stepwell.client import Client
from tests.emulator.kit import DEADLINE_SECONDS, ROOT, until

PAGE = "https://shop.example.com"

GREET = """
workflow: greet
timeline:
  - {name: greet, run: python:words.greet, timeout: 5s}
"""

POLITE = """import logging


def greet():
    logging.getLogger("words").info("somebody asks")
    print("as a print, it names no run")
    return "good day"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workflows"
    made.mkdir()
    (made / "greet.yaml").write_text(GREET)
    (made / "words.py").write_text("def greet():\n    return 'hello'\n")
    (tmp_path / "pyproject.toml").write_text(f'[tool.stepwell]\ncors_origins = ["{PAGE}"]\n')
    return made


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    stepwell = "from stepwell.cli.main import main; main()"
    command = [sys.executable, "-c", stepwell, "dev", "--aws", str(folder), "--port", "0"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(  # noqa: S603 - this Python, these paths
            [*command, "--data", str(tmp_path / "data")], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        yield process
        process.kill()


@pytest.mark.slow
def test_a_folder_is_served_as_deployed_and_again_when_it_changes(
    server: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("ready http://127.0.0.1:"), (tmp_path / "log").read_text()
    with Client(line.removeprefix("ready ").strip()) as client:
        health = client.health()
        assert (health["status"], health["dependencies"]) == ("ok", {"store": "reached"})

        def said() -> str:
            return str(client.start("greet").result(20))

        assert said() == "hello"
        page = httpx.get(client.url, headers={"accept": "text/html"}, trust_env=False)
        assert (page.status_code, "<title>" in page.text) == (200 if is_built() else 503, True)
        answer = httpx.get(f"{client.url}/health", headers={"origin": PAGE}, trust_env=False)
        assert answer.headers.get_list("access-control-allow-origin") == [PAGE]
        (folder / "words.py").write_text(POLITE)
        until(lambda: " deployed\n" in (tmp_path / "log").read_text(), "it is deployed again", pause_seconds=0.5)
        until(lambda: said() == "good day", "the new code runs", pause_seconds=1)
        logged = CliRunner().invoke(app, ["logs", "last", "--url", client.url])
        assert [line[-20:] for line in logged.stdout.splitlines()] == ["greet  somebody asks"]
    server.send_signal(signal.SIGINT)
    assert server.wait(DEADLINE_SECONDS) == 0
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    stages = ("starting the AWS emulator", "building the functions' packages", "uploading them and deploying",
              "deployed to")  # fmt: skip
    assert [stage for stage in stages if stage not in log] == []
    assert [*stages] == sorted(stages, key=log.index)
    assert not answers(log.partition("deployed to ")[2].split()[0])
    assert not (tmp_path / "data" / "aws" / "tmp").exists()


def test_an_emulator_ends_with_its_parent_however_that_one_ends(tmp_path: Path) -> None:
    parent = (
        "import sys, time; from pathlib import Path; from stepwell.aws.emulation.emulator import Emulator\n"
        "with Emulator(Path(sys.argv[1])) as emulator: print(emulator.url, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", parent, str(tmp_path / "emulator")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - this Python
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/_ministack/health", trust_env=False).is_success
        process.kill()
    until(lambda: not answers(url), "the emulator ends")


def answers(url: str) -> bool:
    try:
        httpx.get(f"{url}/_ministack/health", trust_env=False)
    except httpx.TransportError:
        return False
    return True


def test_who_has_no_emulator_is_told_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ministack", None)
    told = CliRunner().invoke(app, ["dev", "--aws", str(folder)])
    assert told.exit_code == 2
    assert 'pip install "stepwell[emulator]"' in told.output

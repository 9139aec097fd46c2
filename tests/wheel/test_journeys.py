"""How far a few commands take a person who has Python and nothing else, and how long that takes beside pip alone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.wheel.conftest import ROOT, clean

FIRST = 'order-review -i \'{"order_id": "A-1", "amount": 80}\''
LOCAL = ("pip install STEPWELL[dev]", "stepwell init shop", f"stepwell dev shop --run {FIRST}")
DEPLOYED = ("pip install STEPWELL[emulator]", "stepwell init shop", "cd shop", "stepwell dev --aws",
            f"stepwell run {FIRST}")  # fmt: skip
PATIENCE_SECONDS = 600
FIGURES = ROOT / "benchmarks" / "journeys.json"


@dataclass
class Shell:
    """A terminal in an empty folder, with an environment of Python alone. `dev` goes on while others are typed."""

    folder: Path
    programs: Path
    wheel: Path
    url: str = ""
    server: subprocess.Popen[str] | None = None

    def type(self, line: str) -> float:
        """Returns the seconds until the command ends, or serves."""
        began = time.monotonic()
        match shlex.split(line):
            case ["cd", folder]:
                self.folder /= folder
            case ["pip", "install", wanted]:
                extras = wanted.removeprefix("STEPWELL")
                self._run("pip", "install", "-q", f"stepwell{extras} @ {self.wheel.as_uri()}")
            case ["stepwell", "dev", *words]:
                self._serve(words)
            case ["stepwell", *words]:
                self._run("stepwell", *words)
            case other:
                raise AssertionError(other)
        return time.monotonic() - began

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(  # noqa: S603 - programs of our own environment
            [str(self.programs / program), *words], cwd=self.folder, env=self._environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _serve(self, words: Sequence[str]) -> None:
        command = [str(self.programs / "stepwell"), "dev", "--port", "0", *words]
        self.server = subprocess.Popen(  # noqa: S603 - as above
            command, cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert line.startswith("ready http://127.0.0.1:")
        self.url = line.removeprefix("ready ").strip()

    def _environment(self) -> dict[str, str]:
        return clean() | ({"STEPWELL_URL": self.url} if self.url else {})

    def ended(self) -> str:
        """The status in which the first run ends."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            items = httpx.get(f"{self.url}/runs", trust_env=False, timeout=60).json()["items"]
            if items and items[0]["status"] in {"completed", "failed"}:
                return str(items[0]["status"])
            time.sleep(0.1)
        raise AssertionError("no run")


@contextmanager
def shell(place: Path, wheel: Path) -> Iterator[Shell]:
    place.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)  # noqa: S603 - this Python
    opened = Shell(place, place / "venv" / "bin", wheel)
    try:
        yield opened
    finally:
        if opened.server:
            opened.server.send_signal(signal.SIGINT)
            opened.server.wait(PATIENCE_SECONDS)
            assert opened.server.stdout is not None
            opened.server.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "commands", "most"), [("local", LOCAL, 3), ("deployed", DEPLOYED, 5)])
def test_a_live_run_takes_few_commands_and_little_longer_than_pip_alone(
    place: Path,
    wheel: Path,
    name: str,
    commands: tuple[str, ...],
    most: int,
    record_property: Callable[[str, object], None],
) -> None:
    """`pytest -m slow tests/wheel/test_journeys.py -s` prints the figures. The path has a space.

    With `KEEP=1` before it they are kept, and `python -m tests.docs.generate` writes them into docs/projects.md.
    """
    assert len(commands) <= most
    with shell(place / f"{name} journey", wheel) as opened:
        seconds = [opened.type(line) for line in commands]
        began = time.monotonic()
        assert opened.ended() == "completed"
        total = sum(seconds) + time.monotonic() - began
    ratio = total / seconds[0]
    measured = {"commands": len(commands), "seconds": round(total, 1), "pip_seconds": round(seconds[0], 1),
                "ratio": round(ratio, 2)}  # fmt: skip
    record_property("measured", measured)
    if "KEEP" in os.environ:
        kept = json.loads(FIGURES.read_text()) | {name: measured}
        FIGURES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(f"\n{name}: {len(commands)} commands, {total:.1f} s; pip alone {seconds[0]:.1f} s: {ratio:.2f} times as long")
    assert ratio < 5

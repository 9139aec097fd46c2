"""The same work on Stepwell and on what else runs durable Python on one machine: CPU and wall time, taken in turns.

    uv run python benchmarks/compare.py [--rounds 5] [--only langgraph_sqlite] [--keep benchmarks/figures.json]

Each program in benchmarks/peers is a process with dependencies of its own, which uv installs; one is SQLite alone, the
floor. A round takes one case on each of them, one after the other, so that what the machine does besides meets all of
them. Figures are medians of the rounds. Restate needs npx; a program that does not start is left out, with the end of
what it said.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TextIO

FOLDER = Path(__file__).parent / "peers"
OURS, TOGETHER, FLOOR = "ours", "ours_together", "bare_sqlite"
NOTHING_TO_INSTALL = (OURS, TOGETHER, FLOOR)
PEERS = (
    OURS,
    TOGETHER,
    FLOOR,
    "langgraph_sqlite",
    "dbos_sqlite",
    "dbos_postgres",
    "restate_server",
    "lambda_durable",
    "durabletask_memory",
)
CASES = (  # case, size, times in a round
    ("chain", 10, 50),
    ("chain", 100, 5),
    ("fan", 100, 5),
    ("fan", 1_000, 1),
    ("event", 1, 5),
    ("tail", 1, 20),
    ("late", 1, 2),
)
TOLD = 600  # characters of a program's last words


@dataclass
class Program:
    """A program of benchmarks/peers, and its figures by case: (wall_ms, cpu_ms) of each round."""

    file: str
    process: subprocess.Popen[str]
    said: TextIO
    about: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def round(self, case: str, size: int, times: int, *, counts: bool = True) -> None:
        """Has it do a case. One that it does not have leaves no figure."""
        found = self._asked(json.dumps({"case": case, "size": size, "times": times}))
        if found is not None and counts:
            self.figures.setdefault(f"{case} {size}", []).append((found["wall_ms"], found["cpu_ms"]))

    def greet(self) -> None:
        self.about = self._asked("")

    def _asked(self, line: str) -> Any:
        if self.process.stdin is None or self.process.stdout is None:
            raise TypeError("a program is talked to through pipes")
        if line:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.said.seek(0)
            raise RuntimeError(f"{self.file} ended: {self.said.read()[-TOLD:]}")
        return json.loads(answer)

    def medians(self) -> dict[str, dict[str, float]]:
        """By case."""
        return {
            case: {
                "wall_ms": round(median(of[0] for of in found), 3),
                "cpu_ms": round(median(of[1] for of in found), 3),
            }
            for case, found in self.figures.items()
        }


def start(file: str, stack: ExitStack) -> Program | None:
    """A running program that has said what it is; None where it could not."""
    path = FOLDER / f"{file}.py"
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None and file not in NOTHING_TO_INSTALL:
        raise SystemExit("uv installs what the others need: run this with `uv run`")
    interpreter = [sys.executable] if file in NOTHING_TO_INSTALL else [str(uv), "run", "-q", "--script"]
    said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is open as long as the program runs
    stack.callback(said.close)
    process = stack.enter_context(
        subprocess.Popen(
            [*interpreter, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        )
    )
    stack.callback(process.stdin.close if process.stdin else process.kill)
    program = Program(file, process, said)
    try:
        program.greet()
    except RuntimeError as error:
        print(f"left out: {error}", file=sys.stderr)
        return None
    return program


def measure(programs: Sequence[Program], rounds: int) -> None:
    """Every case once to warm up, then all rounds of it in turns."""
    for case, size, times in CASES:
        for number in range(rounds + 1):
            for program in programs:
                program.round(case, size, times if number else 1, counts=number > 0)
            print(f"\r{case} {size}: {number} of {rounds} rounds", end="", file=sys.stderr)
        print(file=sys.stderr)


def show(programs: Sequence[Program]) -> None:
    """A table for each kind of figure, and how many times ours the others take."""
    ours = next((one.medians() for one in programs if one.file == OURS), {})
    for kind in ("cpu_ms", "wall_ms"):
        cases = [f"{case} {size}" for case, size, _ in CASES if kind == "wall_ms" or case in ("chain", "fan")]
        print(f"\n{kind} of a step, a branch or a run; in brackets, as a multiple of ours")
        print(f"{'':36}" + "".join(f"{case:>18}" for case in cases))
        for program in programs:
            found = program.medians()
            cells = [_cell(found.get(case), ours.get(case), kind) for case in cases]
            print(f"{program.about['name']:36}" + "".join(f"{cell:>18}" for cell in cells))
    print()
    for program in programs:
        about = program.about
        print(f"{about['name']}: imported in {about['import_ms']:.0f} ms of CPU; {about['durability']}")


def _cell(found: dict[str, float] | None, ours: dict[str, float] | None, kind: str) -> str:
    if found is None:
        return "-"
    if not ours or not ours[kind] or found == ours:
        return f"{found[kind]:.2f}"
    return f"{found[kind]:.2f} ({found[kind] / ours[kind]:.1f})"


def as_json(programs: Sequence[Program], rounds: int) -> dict[str, Any]:
    """What docs/performance.md is made from."""
    return {
        "on": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "processor": _processor(), "python": platform.python_version()},
        "rounds": rounds,
        "programs": [{**one.about, "file": one.file, "cases": one.medians()} for one in programs],
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=PEERS, help="beside ours; as often as you like")
    parser.add_argument("--keep", type=Path, help="a file for the figures, as JSON")
    given = parser.parse_args()
    with ExitStack() as stack:  # each program ends as its input does
        found = [start(file, stack) for file in PEERS if not given.only or file in (OURS, *given.only)]
        programs = [one for one in found if one is not None]
        measure(programs, given.rounds)
    show(programs)
    if given.keep:
        given.keep.write_text(json.dumps(as_json(programs, given.rounds), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

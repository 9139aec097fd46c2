"""`stepwell gate`: replays the histories of open runs against code that is not deployed yet."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from stepwell.cli import exits
from stepwell.cli.arguments import OfFolder, ResultAsJson, option
from stepwell.cli.connect import connect
from stepwell.cli.folders import existing_folder
from stepwell.cli.hushing import aside
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import counted
from stepwell.errors import StepwellError
from stepwell.values import dataclass

if TYPE_CHECKING:
    from stepwell.local.gating import Gated
    from stepwell.local.replaying import Export

AGAINST = "--against"
OPEN = ("idle", "pending", "running", "waiting", "paused", "compensating")
FAILED = ("failed", "timed_out")
MOST_RUNS = 1_000
MOST_JOBS = 4
_FEW = 16  # runs for which further processes do not pay


@dataclass(frozen=True, slots=True)
class Reported:
    """A run of an API, which is read when its turn comes."""

    url: str
    run_id: str
    workflow: str


class Gate(TyperCommand):
    """The command `gate`, whose `--against` takes several places."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line."""
        return super().parse_args(ctx, spread(args))


def spread(args: Sequence[str]) -> list[str]:
    """Repeats `--against` before each of its places: they go on until the next option."""
    found: list[str] = []
    takes_places = False
    for before, one in zip(("", *args), args, strict=False):
        if one.startswith("-"):
            takes_places = one.partition("=")[0] == AGAINST
        elif takes_places and before != AGAINST:
            found.append(AGAINST)
        found.append(one)
    return found


def gate(
    folder: OfFolder = None,
    against: Annotated[
        list[str] | None, option(AGAINST, "URL|FILE…", "APIs, exports, or folders of exports; default STEPWELL_URL.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="How many runs of an API, the newest first.")] = MOST_RUNS,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="How many runs are checked at once.")] = MOST_JOBS,
    redrives: Annotated[
        bool, typer.Option("--redrives", help="Check failed runs instead: which could be redriven.")
    ] = False,
    as_json: ResultAsJson = False,
) -> None:
    """Tell which open runs could not go on with this folder's code. Exit status 1: some. Runs no step."""
    chosen = existing_folder(folder).resolve()
    statuses = FAILED if redrives else OPEN
    found = list(gate_runs(asked_of(against or [""], most, statuses), chosen, jobs))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_gated(found, "failed" if redrives else "open")
    if any(one.verdict.would_stick for one in found):
        raise typer.Exit(exits.FAILED)


def asked_of(places: Iterable[str], most: int, statuses: Sequence[str] = OPEN) -> list[Reported | Export]:
    """Returns the runs with these statuses, of these APIs and of the exports in these files. Raises StepwellError."""
    asked: list[Reported | Export] = []
    for place in places:
        if place and not place.startswith(("http://", "https://")):
            asked += _exported(Path(place), statuses)
        else:
            asked += _reported(place, most, statuses)
    return asked


def _exported(place: Path, statuses: Sequence[str]) -> list[Export]:
    """Returns the exports of runs with these statuses, and says on stderr how many others there are."""
    from stepwell.local.replaying import read_exports  # noqa: PLC0415 - with the compiler

    exports = read_exports(place)
    found = [one for one in exports if one.run["status"] in statuses]
    if left := len(exports) - len(found):
        why = "did not fail" if statuses == FAILED else "had ended; --redrives checks those that failed"
        typer.echo(f"left out {counted(left, 'exports')} of runs that {why}", err=True)
    return found


def _reported(url: str, most: int, statuses: Sequence[str]) -> list[Reported]:
    with connect(url) as client:
        runs = iter(client.runs(status=statuses))
        found = [Reported(url, one["run_id"], one["workflow"]) for one in islice(runs, most)]
        if next(runs, None) is not None:
            typer.echo(f"the newest {most} runs are checked; --most takes more", err=True)
    return found


def gate_runs(asked: Sequence[Reported | Export], folder: Path, jobs: int = MOST_JOBS) -> Iterator[Gated]:
    """Checks `jobs` runs at a time, in processes of their own, and shows the progress on a terminal."""
    jobs = min(jobs, os.cpu_count() or 1) if len(asked) > _FEW else 1
    one: Callable[[Reported | Export], Gated] = partial(_gated, folder=folder)
    if jobs == 1:
        yield from _with_progress(map(one, asked), len(asked))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:  # it shares no modules of the folder
        yield from _with_progress(pool.map(one, asked, chunksize=4), len(asked))


def _gated(asked: Reported | Export, *, folder: Path) -> Gated:
    from stepwell.local.gating import Gated, Verdict, gated  # noqa: PLC0415 - with the compiler
    from stepwell.local.replaying import exported  # noqa: PLC0415

    if isinstance(asked, Reported):
        try:
            with connect(asked.url) as client:
                export = exported(client.handle(asked.run_id).export(), f"run {asked.run_id}")
        except StepwellError as error:
            return Gated(asked.run_id, asked.workflow, Verdict.UNKNOWN, error.message)
    else:
        export = asked
    with aside():
        return gated(export, folder)


def _with_progress(found: Iterable[Gated], count: int) -> Iterator[Gated]:
    is_shown = sys.stderr.isatty()
    for number, one in enumerate(found, 1):
        if is_shown:
            typer.echo(f"\rchecked {number} of {count} runs", err=True, nl=number == count)
        yield one


_SEVERAL = {  # verdicts of several runs
    "keeps its definition": "keep their definitions",
    "needs a patch": "need a patch",
    "refuses its input": "refuse their inputs",
    "lacks code": "lack code",
    "lacks its step": "lack their steps",
}


def print_gated(found: Sequence[Gated], which: str = "open") -> None:
    """Prints what would stick, run by run, and how many there are of each verdict."""
    from stepwell.local.gating import Verdict  # noqa: PLC0415 - with the compiler

    out = console()
    for one in found:
        if one.verdict.would_stick:
            out.print(str(one), style="red", soft_wrap=True)
    counts = Counter(one.verdict.value for one in found)
    told = ", ".join(f"{count} {_SEVERAL.get(one, one) if count > 1 else one}" for one, count in counts.most_common())
    out.print(
        f"{counted(len(found), f'{which} runs')}: {told}" if found else f"there are no {which} runs", soft_wrap=True
    )
    if any(one.verdict is Verdict.PATCH and one.where is not None for one in found):
        out.print('put what is new behind `if ctx.patched("name"):`, or add it as a further version')

"""The command that simulates many runs of a workflow: outcomes, times, cost, and deadlines that contradict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import (
    Memory,
    OfFolder,
    ResultAsJson,
    Url,
    WorkflowName,
    option,
    read_json,
    read_pairs,
    unread,
)
from stepwell.cli.connect import connect
from stepwell.cli.folders import chosen_folder
from stepwell.cli.hushing import each_once
from stepwell.cli.screen import console, print_json, progress
from stepwell.cli.views.words import printable
from stepwell.errors import UserError
from stepwell.prices import SYSTEMS
from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.definition.graph import Graph
    from stepwell.simulation import Assumptions, Simulation

RUNS = 1_000


def simulate(
    workflow: WorkflowName,
    folder: OfFolder = None,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100_000, help="How many runs.")] = RUNS,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same runs.")] = 0,
    assume: Annotated[Path | None, option("--assume", "FILE", "Durations, failures and answers, as YAML.")] = None,
    step: Annotated[
        list[str] | None,
        option("--step", "NAME=TIME[,FAILS]", "How long a step takes, and how often it fails: charge=800ms,5%."),
    ] = None,
    wait: Annotated[
        list[str] | None,
        option("--wait", "NAME=TIME[,NEVER]", "How long a wait takes, and how often nothing ends it: approve=2h,10%."),
    ] = None,
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "The input of all runs.")] = None,
    from_history: Annotated[
        int,
        typer.Option(
            "--from-history",
            metavar="N",
            min=0,
            show_default=False,
            help="Take times and failures from the last N ended runs of the API.",
        ),
    ] = 0,
    memory: Memory = 512,
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Simulate many runs in virtual time. Exit status 1: deadlines contradict; 5: all fail by themselves.

    Calls no step. Imports the modules of the folder, for what `@step` says; a durable function's own code runs.
    """
    from stepwell.cli.folder.simulated_names import refuse_unknown  # noqa: PLC0415
    from stepwell.runtime.folder.loading import load_workflow  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.pricing import prices_for  # noqa: PLC0415 - with the compiler
    from stepwell.simulation import simulate as simulated  # noqa: PLC0415

    if url and not from_history:
        raise typer.BadParameter("an API is asked for --from-history alone, which is not given", param_hint="--url")
    run_input = None if given is None else read_json(given, "-i")
    own = assumptions = _assumptions(assume, step or [], wait or [], run_input)
    place, met = chosen_folder(folder), set[str]()
    graph, others, limits = load_workflow(place, workflow)
    refuse_unknown(own, (graph, *others), place)
    if from_history:
        assumptions = _with_history(assumptions, workflow, from_history, url)
    prices = prices_for(read_settings().prices, place)
    functions, defaults = _code(place)
    with each_once():
        found = simulated(graph, assumptions, runs=runs, seed=seed, others=others, limits=limits,
                          functions=functions, defaults=defaults, memory_gb=memory / 1_024, prices=prices,
                          progress=progress("runs"), met=met)  # fmt: skip
    refuse_unknown(own, (graph, *others), place, met)
    if as_json:
        print_json({**found.to_json(), "source": assumptions.source})
    else:
        _show(found, assumptions.source)
    if found.contradictions:
        raise typer.Exit(exits.FAILED)
    if _fails_by_itself(found, graph, assumptions):
        if graph.replays and not as_json:
            _tell_of_own(workflow, list(dict.fromkeys(one.error for one in found.outcomes)))
        raise typer.Exit(exits.UNPROVEN)


def _tell_of_own(workflow: str, errors: Sequence[str]) -> None:
    """Says that the function, and no step, is what failed, and what to do."""
    hint = ("correct it; or if it lacks something in what a step returned, give that: "
            "--assume FILE, with `returns`")  # fmt: skip
    if errors == ["step_input"]:
        hint = "give the input that the function takes: -i FILE|JSON"
    told = f"nothing is simulated: every run failed in {workflow} itself, with {', '.join(errors)}"
    console().print(f"{printable(told)}\n  hint: {hint}", style="red", soft_wrap=True)


def _fails_by_itself(found: Simulation, graph: Graph, given: Assumptions) -> bool:
    """Returns whether all runs failed although no step or wait was to: in their own code, or for lack of values."""
    chances = [chance for one in (given.default, *given.steps.values()) for chance in (one.fails, one.times_out)]
    chances += [chance for one in given.waits.values() for chance in (one.never, one.rejects)]
    if 1 in chances:
        return False
    if not graph.replays:
        return _lacks_values(found) and all(one.status in {"failed", "open"} for one in found.outcomes)
    own = {name for name, node in graph.nodes.items() if node.durable is not None}
    return all(one.status in {"failed", "open"} and one.error and one.step in {*own, ""} for one in found.outcomes)


def _lacks_values(found: Simulation) -> bool:
    """Whether a node failed because of what its expression reads."""
    from stepwell.simulation.playing import UNREAD  # noqa: PLC0415 - with the engine

    return any(what.startswith(UNREAD) for what in found.assumed)


def _assumptions(path: Path | None, steps: Sequence[str], waits: Sequence[str], given: Any) -> Assumptions:
    from stepwell.simulation import parse_assumptions  # noqa: PLC0415 - with the compiler

    made: dict[str, Any] = dict(_read(path) if path is not None else {})
    for key, flag, example, given_here, parts in (
        ("steps", "--step", "charge=800ms,5%", steps, ("takes", "fails")),
        ("waits", "--wait", "approve=2h", waits, ("after", "never")),
    ):
        there = made.get(key, {})
        if isinstance(there, dict):  # else the file is refused below
            pairs = read_pairs(given_here, flag, example)
            made[key] = {**there, **{name: _pair(text, *parts) for name, text in pairs.items()}}
    if given is not None:
        made["input"] = given
    return parse_assumptions(made, str(path) if path else "assumptions")


def _pair(text: str, first: str, second: str) -> dict[str, str]:
    """Parses `800ms,5%`."""
    one, comma, other = text.partition(",")
    return {first: one, second: other} if comma else {first: one}


def _read(path: Path) -> dict[str, Any]:
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    try:
        loaded = load_document(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unread(path, error) from error
    if not isinstance(loaded.data, dict):
        raise UserError(f"{path} holds no assumptions", code="bad_assumptions",
                        hint="steps: {charge: {takes: 800ms, fails: 5%}}")  # fmt: skip
    return loaded.data


def _code(folder: Path) -> tuple[Callable[[], Any], Callable[[str], Any]]:
    """Returns a maker of the executor of durable functions, and a reader of the defaults of steps."""
    from stepwell.definition.authoring import StepDefaults  # noqa: PLC0415 - with the compiler
    from stepwell.memory.clocks import VirtualClock  # noqa: PLC0415
    from stepwell.project import project_of  # noqa: PLC0415
    from stepwell.runtime.executor import FunctionSteps  # noqa: PLC0415
    from stepwell.runtime.steps.registry import Registry, defaults_of  # noqa: PLC0415

    paths = project_of(folder).paths
    registry, known = Registry(folder, paths), dict[str, StepDefaults]()

    def defaults(run: str) -> StepDefaults:
        if run not in known:
            try:
                known[run] = defaults_of(registry.function(run))
            except Exception:  # of any type: an import runs users' code, and `check` tells what is wrong with it
                known[run] = StepDefaults()
        return known[run]

    return lambda: FunctionSteps(folder, VirtualClock(), paths=paths), defaults


def _with_history(given: Assumptions, workflow: str, runs: int, url: str) -> Assumptions:
    from stepwell.cli.finding import ended_runs  # noqa: PLC0415 - httpx
    from stepwell.simulation.history import assumed_from  # noqa: PLC0415 - with the compiler

    with connect(url) as client:
        ids = ended_runs(client, workflow, min(runs, 500))
        return assumed_from([client.handle(one).view() for one in ids], given)


def _show(found: Simulation, source: str) -> None:
    out = console()
    by = "" if source == "given" else f", {source}"
    out.print(f"{found.runs:,} simulated runs of {found.workflow}, seed {found.seed}{by}:", soft_wrap=True)
    for outcome in found.outcomes:
        where = f" in {outcome.step}" if outcome.step else ""
        why = f": {outcome.error}{where}" if outcome.error else ""
        out.print(printable(f"  {outcome.count / found.runs:>6.1%}  {outcome.status}{why}"), soft_wrap=True)
    if found.p50_seconds is not None:
        told = (("p50", found.p50_seconds), ("p95", found.p95_seconds), ("longest", found.max_seconds))
        out.print("time: " + ", ".join(f"{name} {_duration(seconds or 0)}" for name, seconds in told))
    if found.usd_per_1000_runs:
        costs = ", ".join(f"{title} {found.usd_per_1000_runs[name]:.4f}" for name, title in SYSTEMS.items())
        out.print(f"USD for 1,000 runs, prices as of {found.prices_as_of}: {costs}", soft_wrap=True)
    for title, names in (("never reached", found.never_reached), ("never taken", found.never_taken)):
        if names:
            out.print(printable(f"{title}: {', '.join(names)}"), style="yellow", soft_wrap=True)
    for one in found.contradictions:
        out.print(printable(f"contradiction: {one.message} [{one.code}]"), style="red", soft_wrap=True)
        out.print(printable(f"  hint: {one.hint}"), style="cyan", soft_wrap=True)
    for what, how in found.assumed.items():
        out.print(printable(f"assumed: {what} {how}"), style="dim", soft_wrap=True)
    if _lacks_values(found):
        hint = "give the input: -i FILE|JSON; or what steps return: --assume FILE"
        out.print(f"  hint: {hint}", style="cyan", soft_wrap=True)


def _duration(seconds: float) -> str:
    """Returns a duration in two units at most."""
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} {int(seconds % size // smaller)}{small}"
    return f"{seconds:.3g}s"

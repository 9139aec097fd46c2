"""Many simulated runs of one workflow, and their sum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph, Limit
from stepwell.errors import InvalidInput
from stepwell.prices import Prices
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.starts.starting import check_whole
from stepwell.runtime.steps.port import Steps
from stepwell.simulation.assumptions import UNKNOWN, Assumptions
from stepwell.simulation.deadlines import contradictions
from stepwell.simulation.guessing import Luck, guessed, is_machine
from stepwell.simulation.playing import Play, SimulatedSteps, seeded
from stepwell.simulation.summary import Simulation, Tally

RUNS, COSTED = 1_000, 50  # of whose runs the ledger is read

Progress = Callable[[int, int], None]


def simulate(
    graph: Graph,
    given: Assumptions,
    *,
    runs: int = RUNS,
    seed: int = 0,
    others: Iterable[Graph] = (),
    limits: Mapping[str, Limit] | None = None,
    functions: Callable[[], Steps] | None = None,
    defaults: Callable[[str], StepDefaults] = lambda run: StepDefaults(),
    seconds: float | None = None,
    memory_gb: float = 0.5,
    prices: Prices | None = None,
    progress: Progress | None = None,
    met: set[str] | None = None,
) -> Simulation:
    """Simulates so many runs. The same seed gives the same runs. Calls no step; a durable function's own code runs.

    `others`: the workflows that it may call; the call of another one is simulated as a step. `limits`: the named ones,
    which a run has to itself; another one limits nothing. `functions`: makes what runs durable functions, for one run.
    `defaults`: what `@step` says of a function. `seconds`: of real time; later runs are left out. `prices`: None for
    the built-in ones. `met`: gets the names of all steps and waits that runs came to. Raises InvalidInput for an input
    that `input_schema` refuses, and for code that cannot be imported or replayed.
    """
    if given.input is not None:
        check_whole(graph, given.input)
    luck, until = Luck(), float("inf") if seconds is None else time.monotonic() + seconds
    all_of_them: Mapping[str, Graph] = {one.name: one for one in (*others, graph)}
    catalog = Catalog(partial(compile_document, trusted=True),
                      [guessed(one, given, luck, all_of_them) for one in all_of_them.values()],
                      {**_unlimited(all_of_them.values()), **(limits or {})})  # fmt: skip
    run_input = given.input if given.input is not None else UNKNOWN if is_machine(graph) else {}
    tally = Tally(graph, given, memory_gb, prices or Prices())
    for number in range(runs):
        if progress is not None and number % 50 == 0:
            progress(number, runs)
        seeded(luck, seed, number)
        steps = SimulatedSteps(given, luck, functions() if functions and graph.replays else None, defaults)
        play = Play(catalog, steps, given, luck, compile_expression, f"simulated-{number}")
        played = play.play(graph.name, run_input, with_cost=number < COSTED,
                           is_late=lambda: time.monotonic() > until)  # fmt: skip
        if played.stuck is not None:
            why = f"{played.stuck.get('type')}: {played.stuck.get('message')}"
            raise InvalidInput(f"the code of {graph.name} cannot go on: {why}", code="not_simulated",
                               hint="correct the code, and simulate again; see stepwell check FOLDER")  # fmt: skip
        if played.is_cut:
            break
        tally.add(played)
    if progress is not None:
        progress(runs, runs)
    if met is not None:
        met.update(luck.met)
    return tally.summed(seed, luck.assumed, contradictions(graph, all_of_them, defaults))


def _unlimited(graphs: Iterable[Graph]) -> Mapping[str, Limit]:
    """Returns the limits that their steps name, as if they limited nothing."""
    steps = (node.step for graph in graphs for node in graph.nodes.values())
    return {step.throttle.limit: Limit() for step in steps if step is not None and step.throttle is not None}

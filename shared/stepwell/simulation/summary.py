"""The sum of many simulated runs: outcomes, times, cost, what never happened, and which deadlines contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from stepwell.definition.graph import Graph
from stepwell.prices import Prices, usd_by_system
from stepwell.simulation.assumptions import Assumptions
from stepwell.simulation.deadlines import Contradiction
from stepwell.simulation.playing import Played
from stepwell.values import dataclass

_PER = 1_000  # runs that costs are for


@dataclass(frozen=True, slots=True)
class Outcome:
    """How runs ended: the status, and of those that failed the error and its step."""

    status: str
    count: int
    error: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation. Durations are seconds, costs are USD for 1,000 runs."""

    workflow: str
    runs: int
    seed: int
    outcomes: tuple[Outcome, ...]
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    usd_per_1000_runs: Mapping[str, float]
    prices_as_of: str
    per_run: Mapping[str, float]
    never_reached: tuple[str, ...]  # nodes
    never_taken: tuple[str, ...]  # rules of nodes that were reached
    contradictions: tuple[Contradiction, ...]
    assumed: Mapping[str, str] = field(default_factory=dict)  # what was decided without being given

    def to_json(self) -> dict[str, Any]:
        """Returns the result for programs."""
        return asdict(self)


class Tally:
    """Adds runs up."""

    def __init__(self, graph: Graph, given: Assumptions, memory_gb: float, prices: Prices) -> None:
        self._graph, self._given, self._memory_gb, self._prices = graph, given, memory_gb, prices
        self._played: list[Played] = []
        self._nodes, self._rules, self._timeouts = Counter[str](), Counter[str](), Counter[str]()

    def add(self, played: Played) -> None:
        """Takes one run."""
        self._played.append(played)
        self._nodes.update(played.nodes.keys())
        self._rules.update(played.rules.keys())
        self._timeouts.update(played.timeouts.keys())

    def summed(self, seed: int, assumed: Mapping[str, str], found: Sequence[Contradiction]) -> Simulation:
        """Returns the sum."""
        graph = self._graph
        times = sorted(one.duration_ms / 1_000 for one in self._played if one.duration_ms or one.status != "open")
        per_run, usd = self._cost()
        reached = {name for name in graph.shown if self._nodes[name]}
        rules = [rule for name in reached for rule in graph.nodes[name].rules if rule.stage != "next"]
        defaults = {} if self._given.steps or self._given.default.is_given else {"steps": "take 1 s and never fail"}
        if graph.replays:
            defaults["function"] = "its own code runs; a step returns what `returns` says, else an object"
        return Simulation(
            workflow=graph.name,
            runs=len(self._played),
            seed=seed,
            outcomes=tuple(self._outcomes()),
            p50_seconds=percentile(times, 50),
            p95_seconds=percentile(times, 95),
            max_seconds=times[-1] if times else None,
            usd_per_1000_runs=usd,
            prices_as_of=self._prices.as_of,
            per_run=per_run,
            never_reached=tuple(name for name in graph.shown if name not in reached and not graph.replays),
            never_taken=tuple(sorted(rule.id for rule in rules if not self._rules[rule.id])),
            contradictions=(*found, *self._seen({one.node for one in found})),
            assumed={**defaults, **assumed},
        )

    def _outcomes(self) -> Sequence[Outcome]:
        counts = Counter((one.status, one.error.type if one.error else "", one.error.step if one.error else "")
                         for one in self._played)  # fmt: skip
        return [Outcome(status, count, error, step) for (status, error, step), count in counts.most_common()]

    def _cost(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """The mean ledger of the runs that have one, and USD for 1,000 runs."""
        ledgers = [asdict(one.cost) for one in self._played if one.cost is not None]
        if not ledgers:
            return {}, {}
        names = [name for name in ledgers[0] if name != "is_whole"]
        used = {name: round(sum(one[name] for one in ledgers) / len(ledgers), 3) for name in names}
        usd = usd_by_system(used, self._prices, self._memory_gb, _PER)
        return used, {name: round(cost, 6) for name, cost in usd.items()}

    def _seen(self, known: Collection[str]) -> Sequence[Contradiction]:
        """What no definition shows: a wait that the run's own deadline ended each time that nobody answered."""
        cut = Counter(one.error.step for one in self._played
                      if one.error is not None and one.error.type == "workflow_timeout")  # fmt: skip
        return [_too_late(name, count, len(self._played)) for name, count in cut.items()
                if name not in known and self._is_cut(name)]  # fmt: skip

    def _is_cut(self, name: str) -> bool:
        """Whether a wait's own time-out never came in any run."""
        node = self._graph.nodes.get(name)
        return node is not None and node.wait is not None and not self._timeouts[name]


def _too_late(name: str, count: int, runs: int) -> Contradiction:
    message = f"in {count} of {runs} runs the run's time was over at `{name}`, whose own time-out never came"
    return Contradiction(
        "always_too_late", name, message, "shorten what comes before, or raise the workflow's `timeout`"
    )


def percentile(times: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile of sorted times."""
    rank = -(-len(times) * percent // 100)  # rounded up
    return times[rank - 1] if times else None

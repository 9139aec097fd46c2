"""What a simulation assumes: how long steps take, how often they fail, when waits are answered, which rules apply.

steps:
  charge: {takes: {p50: 800ms, p95: 3s}, fails: 5%, error: CardDeclined, returns: {paid: true}}
waits:
  approve: {after: {p50: 2h, p95: 2d}, never: 10%, rejects: 5%}
rules: {"charge.branch[0]": 20%}
items: {each-order: 20}
input: {amount: 80}
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput, UserError
from stepwell.values import dataclass

UNKNOWN: Json = {"simulated": "unknown"}  # the result of a step of which none is given
_Z95 = 1.6449  # of the normal distribution: 95 % are below
_STEP_MS, _WAIT_MS = 1_000, 60_000  # where nobody says otherwise
_OF_STEP = frozenset({"takes", "fails", "error", "category", "times_out", "returns"})
_OF_WAIT = frozenset({"after", "never", "rejects", "data"})
_OF_TIME = frozenset({"p50", "p95", "min", "max", "mean"})
_TOP = frozenset({"steps", "waits", "rules", "items", "input", "default"})


@dataclass(frozen=True, slots=True)
class Time:
    """A duration in milliseconds: fixed, log-normal by its p50 and p95, uniform, exponential, or one of samples."""

    fixed_ms: float | None = None
    p50_ms: float = 0
    p95_ms: float = 0
    between_ms: tuple[float, float] | None = None
    mean_ms: float = 0
    samples_ms: Sequence[float] = ()

    def draw(self, rng: random.Random) -> int:
        """Returns one of them, in whole milliseconds."""
        if self.fixed_ms is not None:
            return round(self.fixed_ms)
        if self.samples_ms:
            return round(rng.choice(self.samples_ms))
        if self.between_ms is not None:
            return round(rng.uniform(*self.between_ms))
        if self.mean_ms:
            return round(rng.expovariate(1 / self.mean_ms))
        sigma = math.log(max(self.p95_ms, self.p50_ms) / self.p50_ms) / _Z95
        return round(rng.lognormvariate(math.log(self.p50_ms), sigma))


@dataclass(frozen=True, slots=True)
class StepGuess:
    """A step: each attempt takes this time, and fails or times out with these chances (0 to 1)."""

    takes: Time = Time(fixed_ms=_STEP_MS)
    fails: float = 0.0
    error: str = "Transient"
    category: str = "transient"
    times_out: float = 0.0
    returns: Json = field(default_factory=lambda: UNKNOWN)
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class WaitGuess:
    """A wait: answered so long after it began, never, or, an approval, with a no."""

    after: Time = Time(fixed_ms=_WAIT_MS)
    never: float = 0.0
    rejects: float = 0.0
    data: Json = field(default_factory=lambda: UNKNOWN)
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class Assumptions:
    """All of them, by the names of nodes and the ids of rules. `source`: where they come from, in words."""

    steps: Mapping[str, StepGuess] = field(default_factory=dict)
    waits: Mapping[str, WaitGuess] = field(default_factory=dict)
    rules: Mapping[str, float] = field(default_factory=dict)
    items: Mapping[str, int] = field(default_factory=dict)
    input: Json = None
    default: StepGuess = StepGuess()
    source: str = "given"

    def step(self, node: str) -> StepGuess:
        """Returns what is assumed of a step, or of a compensation by the name of what it undoes."""
        return self.steps.get(node, self.default)

    def wait(self, node: str) -> WaitGuess:
        """Returns what is assumed of a wait."""
        return self.waits.get(node, WaitGuess())


Given: TypeAlias = Mapping[str, Any]


def parse_assumptions(given: Json, source: str = "assumptions") -> Assumptions:
    """Parses them from plain data, as in the docstring of this module. Raises InvalidInput with the place."""
    top = _mapping({} if given is None else given, source, _TOP)
    default = _step(top.get("default", {}), f"{source}.default")
    return Assumptions(
        steps={name: _step(one, f"{source}.steps.{name}", default) for name, one in _named(top, "steps", source)},
        waits={name: _wait(one, f"{source}.waits.{name}") for name, one in _named(top, "waits", source)},
        rules={name: chance(one, f"{source}.rules.{name}") for name, one in _named(top, "rules", source)},
        items={name: _count(one, f"{source}.items.{name}") for name, one in _named(top, "items", source)},
        input=top.get("input"),
        default=default,
    )


def _step(given: Json, place: str, default: StepGuess | None = None) -> StepGuess:
    made, base = _mapping(given, place, _OF_STEP), default or StepGuess()
    return StepGuess(
        takes=time_of(made["takes"], f"{place}.takes") if "takes" in made else base.takes,
        fails=chance(made["fails"], f"{place}.fails") if "fails" in made else base.fails,
        error=str(made.get("error", base.error)),
        category=str(made.get("category", "step" if "error" in made else base.category)),
        times_out=chance(made["times_out"], f"{place}.times_out") if "times_out" in made else base.times_out,
        returns=made.get("returns", base.returns),
        is_given=bool(made) or base.is_given,
    )


def _wait(given: Json, place: str) -> WaitGuess:
    made, base = _mapping(given, place, _OF_WAIT), WaitGuess()
    return WaitGuess(
        after=time_of(made["after"], f"{place}.after") if "after" in made else base.after,
        never=chance(made.get("never", 0), f"{place}.never"),
        rejects=chance(made.get("rejects", 0), f"{place}.rejects"),
        data=made.get("data", base.data),
        is_given=bool(made),
    )


def time_of(given: Json, place: str) -> Time:
    """Parses a duration or a distribution of durations. Raises InvalidInput."""
    if not isinstance(given, dict):
        return Time(fixed_ms=_duration_ms(given, place))
    made = {name: _duration_ms(one, f"{place}.{name}") for name, one in _mapping(given, place, _OF_TIME).items()}
    match sorted(made):
        case ["p50"]:
            return Time(fixed_ms=made["p50"])
        case ["p50", "p95"] if 0 < made["p50"] <= made["p95"]:
            return Time(p50_ms=made["p50"], p95_ms=made["p95"])
        case ["max", "min"] if made["min"] <= made["max"]:
            return Time(between_ms=(made["min"], made["max"]))
        case ["mean"] if made["mean"] > 0:
            return Time(mean_ms=made["mean"])
    raise _bad(place, "a duration is 2s, {p50: 1s, p95: 4s}, {min: 1s, max: 3s} or {mean: 2s}")


def _duration_ms(given: Json, place: str) -> float:
    try:
        return float(parse_duration(given))
    except UserError as error:
        raise _bad(place, error.message) from error


def chance(given: Json, place: str) -> float:
    """Parses a chance: 5% or 0.05. Raises InvalidInput."""
    try:
        made = float(given.removesuffix("%")) / 100 if isinstance(given, str) and given.endswith("%") else float(given)
    except (TypeError, ValueError):
        made = -1.0
    if isinstance(given, bool) or not 0 <= made <= 1:
        raise _bad(place, "a chance is 5% or a number from 0 to 1")
    return made


def _count(given: Json, place: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 10_000:
        raise _bad(place, "a count of items is a whole number up to 10,000")
    return given


def _named(top: Given, key: str, source: str) -> Sequence[tuple[str, Json]]:
    return list(_mapping(top.get(key, {}), f"{source}.{key}").items())


def _mapping(given: Json, place: str, names: frozenset[str] = frozenset()) -> Given:
    if not isinstance(given, dict) or (names and not given.keys() <= names):
        raise _bad(place, f"it takes {', '.join(sorted(names))}" if names else "it is a mapping by name")
    return given


def _bad(place: str, why: str) -> InvalidInput:
    return InvalidInput(f"{place}: {why}", code="bad_assumptions")

"""Verifies a user's workflow: crashed at every durable write, with every message doubled and reordered.

    report = verify("workflows", "order", {"order_id": "A-1"}, world=lambda: bank.charges, reset=bank.clear)
    assert report.holds, report

In memory and in virtual time. The result, the effects and the compensations must be those of an undisturbed run, and
each step must leave the outside as it was when its code runs again for the same commit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stepwell.definition.graph import Json
from stepwell.errors import UserError
from stepwell.runtime.folder.loading import load_workflow
from stepwell.testing.names import step_names
from stepwell.testing.verify.answers import Answer, parse_answers
from stepwell.testing.verify.chaos import Plan, Written
from stepwell.testing.verify.findings import Findings
from stepwell.testing.verify.guard import Guard
from stepwell.testing.verify.report import Report, StepReport, Verdict
from stepwell.testing.verify.seen import Replaced
from stepwell.testing.verify.trial import Case, Ended, run_trial, stripped

__all__ = ["Report", "StepReport", "Verdict", "verify"]

SHUFFLES, MOST_CRASHES, SECONDS = 20, 400, 60.0
_REORDERED = 4  # undisturbed trials in another order, which show what differs by itself
_CRASHES_FIRST = 100  # where there are more, the shuffled schedules come in between
_REPLACED = "a step to replace, or to fail"
_CHANCE = 0.02  # of a death at a stop, in every other shuffled schedule

Progress = Callable[[int, int], None]


def verify(
    folder: Path | str,
    workflow: str,
    input: Json = None,  # noqa: A002  the API's own word
    *,
    world: Callable[[], object] | None = None,
    reset: Callable[[], object] | None = None,
    steps: Mapping[str, object] | None = None,
    fails: Iterable[str] = (),
    answers: Sequence[Json | Answer] = (),
    approve_all: bool = False,
    allow_outside: bool = False,
    may_fail: bool = False,
    ignore: Sequence[str] = (),
    shuffles: int = SHUFFLES,
    most_crashes: int = MOST_CRASHES,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> Report:
    """Runs the workflow undisturbed, and then under every schedule. Raises UserError if it cannot be run at all.

    Also for a name in `steps` or `fails` that no step has.

    `world`: returns what steps change outside, for example the rows of a fake bank; it is compared as JSON. `reset`:
    empties it before each run. Without `reset`, each run has an empty folder as the current one, whose files are
    compared, and the workflow's modules are imported anew. `steps`: what stands in for steps, by the name of the
    node or the function: a function of the input, or a result. `fails`: steps that always fail, for compensations.
    `answers`: approvals and events, as in `stepwell verify --answers`. `allow_outside`: lets steps reach the network,
    start processes and write files. `may_fail`: the undisturbed run may end otherwise than completed, as it may with
    `fails`; else the workflow does not hold then. `ignore`: places of the outside that may differ, such as
    `world.*.tries`. `seconds`: of real time; what does not fit is left out, also the schedule that
    is under way, and the report says so. The first undisturbed run may take a minute in any case.
    """
    if world is not None and reset is None:
        raise UserError("a world needs `reset`, so that each run begins with the same one", code="no_reset")
    place, replaced = Path(folder).resolve(), Replaced(dict(steps or {}), frozenset(fails))
    graph, others, limits = load_workflow(place, workflow)
    graphs = tuple(stripped(one) for one in (graph, *others))
    step_names(place, graphs).refuse(sorted(replaced.names), _REPLACED)
    case = Case(place, graphs, limits, workflow, input, parse_answers(answers, "answers"), approve_all, replaced, world,
                reset, is_guarded=not allow_outside)  # fmt: skip
    findings, counts = _verified(case, ignore, shuffles, most_crashes, seconds, progress or (lambda done, of: None))
    report = findings.report(workflow, *counts, may_fail=may_fail or bool(replaced.fails))
    step_names(place, graphs).refuse_unmet(sorted(replaced.names), replaced.met, _REPLACED)
    idle = sorted(replaced.names - replaced.met)
    notes = [f"no step that ran is called {name}: nothing was replaced" for name in idle]
    return replace(report, notes=(*report.notes, *notes))


def _verified(
    case: Case, ignored: Sequence[str], shuffles: int, most_crashes: int, seconds: float, progress: Progress
) -> tuple[Findings, tuple[int, int, int]]:
    """Returns what was found in how many schedules: with one crash, with messages doubled, and left out."""
    until = time.monotonic() + seconds
    guard = Guard()
    first = _undisturbed(case, guard, max(seconds, SECONDS))
    again = [Plan(), *(Plan(f"reordered, seed {seed}", seed=seed) for seed in range(_REORDERED))]
    even = [one for plan in again if (one := run_trial(case, plan, guard, until)) is not None]
    findings = Findings([first, *even], ignored)
    crashing = _crashes(first.written, most_crashes)
    plans = [*crashing[:_CRASHES_FIRST], *_shuffled(shuffles), *crashing[_CRASHES_FIRST:]]
    done: list[Plan] = []
    for plan in plans:
        progress(len(done), len(plans))
        ended = None if time.monotonic() > until else run_trial(case, plan, guard, until)
        if ended is None:
            break
        findings.add(ended)
        done.append(plan)
    progress(len(done), len(plans))
    _refuse_outside(guard)  # a step that only a disturbed run came to
    crashes = sum(plan.dies_at >= 0 for plan in done)
    return findings, (crashes, len(done) - crashes, len(plans) - len(done))


def _undisturbed(case: Case, guard: Guard, seconds: float) -> Ended:
    """The first trial. Raises UserError where the workflow reaches outside, or does not run to its end in time."""
    first = run_trial(case, Plan(), guard, time.monotonic() + seconds)
    _refuse_outside(guard)
    if first is None:
        raise UserError(f"the undisturbed run of {case.workflow!r} did not end in {seconds:g} seconds",
                        code="undisturbed_too_long", hint="--seconds gives more; or does it loop forever?")  # fmt: skip
    if first.fault:
        raise UserError(f"the undisturbed run of {case.workflow!r} does not go: {first.fault}", code="cannot_verify")
    return first


def _refuse_outside(guard: Guard) -> None:
    """Raises UserError if a step has reached outside."""
    if guard.refused:
        told = "; ".join(f"{step}: {', '.join(sorted(what))}" for step, what in sorted(guard.refused.items()))
        raise UserError(f"steps reach outside, and were not let: {told}", code="reaches_outside",
                        hint="replace them (--mock STEP=JSON, --world FILE), or let them: --allow-outside")  # fmt: skip


def _shuffled(count: int) -> list[Plan]:
    return [Plan(f"doubled and reordered, seed {seed}{', with crashes' if seed % 2 else ''}", seed=seed, doubled=True,
                 deaths=_CHANCE if seed % 2 else 0.0) for seed in range(count)]  # fmt: skip


def _crashes(written: Sequence[Written], most: int) -> list[Plan]:
    """A death after each write, and before those for which a step has run; where there are too many, any of them."""
    plans = []
    for number, one in enumerate(written):
        place = f"write {number + 1} ({one.call}{f' of {one.after_step}' if one.after_step else ''})"
        plans.append(Plan(f"a worker dies after {place}", dies_at=number, dies_after=True))
        if one.after_step:
            plans.append(Plan(f"a worker dies before {place}", dies_at=number))
    if len(plans) > _CRASHES_FIRST:
        random.Random(0).shuffle(plans)  # noqa: S311  an order, so that a part is fair
    return plans[:most]

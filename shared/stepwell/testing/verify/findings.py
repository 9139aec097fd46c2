"""From the trials of a workflow to its report: what differs from the undisturbed runs, and which steps may repeat."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.testing.verify.compare import Change, Path, beyond, changes, in_order, short, varying_places
from stepwell.testing.verify.report import Broken, Report, StepReport, Verdict
from stepwell.testing.verify.seen import Tried
from stepwell.testing.verify.trial import LOST, Ended

_MOST_BROKEN = 3  # of each kind that are told
_WHAT = {
    "status": "status",
    "error": "result",
    "result": "result",
    "compensations": "compensations",
}
_RANKS = {name: rank for rank, name in enumerate(_WHAT)}


@dataclass
class _Step:
    """What is known of a step. `evidence`: of a verdict, the first one and its schedule."""

    runs: int = 0
    repeats: int = 0
    changed: int = 0  # runs that changed the outside
    evidence: dict[Verdict, tuple[str, str]] = field(default_factory=dict)

    def note(self, verdict: Verdict, evidence: str, schedule: str) -> None:
        self.evidence.setdefault(verdict, (evidence, schedule))


class Findings:
    """Adds up the trials. `even`: the undisturbed ones, in any order of messages."""

    def __init__(self, even: Sequence[Ended], ignored: Sequence[str] = ()) -> None:
        """`ignored`: patterns of places of the outside."""
        self._first, self._ignored = even[0], ignored
        self._varying_outcome = varying_places([one.outcome for one in even])
        self._varying_outside = varying_places([one.outside for one in even])
        self._varying_steps = frozenset(_varying_steps(even))
        self._steps: dict[str, _Step] = defaultdict(_Step)
        self._broken: dict[str, list[Broken]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._in_another_order = 0
        self.once: set[str] = set()
        for one in even:
            self.add_steps(one)

    def add(self, ended: Ended) -> None:
        """Compares a disturbed trial with the undisturbed ones."""
        self.add_steps(ended)
        schedule = ended.plan.name
        if ended.fault:
            self._break("fault", schedule, ended.fault)
            return
        if self._lost(ended):
            return
        outcome = beyond(changes(self._first.outcome, ended.outcome), self._varying_outcome)
        if outcome:
            change = min(outcome, key=lambda one: _RANKS.get(one.path[0], len(_RANKS)))
            self._break(_WHAT.get(change.path[0], "steps"), schedule, str(change))
        outside = beyond(changes(self._first.outside, ended.outside), self._varying_outside, self._ignored)
        if outside and in_order(ended.outside) == in_order(self._first.outside):
            self._in_another_order += 1
        elif outside:
            self._break("effects", schedule, str(outside[0]))

    def _lost(self, ended: Ended) -> bool:
        """Whether the run differs because of a step that is marked as at_most_once."""
        error = ended.outcome.get("error") or {}
        fatal = {str(error["step"] or "")} if error.get("type") == LOST else set[str]()
        for step in sorted(ended.lost | fatal):
            so = "so the run failed" if step in fatal else "and the workflow went on"
            self._steps[step].note(Verdict.LOST, f"a worker died in it, {so}: {LOST}", ended.plan.name)
        return bool(ended.lost | fatal)

    def _break(self, what: str, schedule: str, detail: str) -> None:
        self._counts[what] += 1
        if len(self._broken[what]) < _MOST_BROKEN:
            self._broken[what].append(Broken(what, schedule, detail))

    def add_steps(self, ended: Ended) -> None:
        """Looks at each execution for which the same commit had an earlier one."""
        self.once |= ended.once
        first: dict[tuple[str, str, int], Tried] = {}
        for tried in ended.tried:
            step = self._steps[tried.step]
            step.runs += 1
            effects = beyond(changes(tried.before, tried.after), self._varying_outside, self._ignored)
            step.changed += bool(effects)
            before = first.setdefault(tried.slot, tried)
            if before is tried:
                continue
            step.repeats += 1
            if before.is_failed:
                first[tried.slot] = tried
                continue
            if effects:
                step.note(Verdict.EFFECT_TWICE, _told_effect(effects[0]), ended.plan.name)
            if tried.result != before.result and tried.step not in self._varying_steps:
                detail = f"it returned {short(before.result)}, and run again {short(tried.result)}"
                step.note(Verdict.OTHER_RESULT, detail, ended.plan.name)

    def report(self, workflow: str, crashes: int, shuffles: int, left: int, *, may_fail: bool = False) -> Report:
        """Returns the report. `may_fail`: so may the undisturbed run."""
        first = self._first
        return Report(
            workflow=workflow,
            undisturbed=first.outcome,
            steps=tuple(self._step(name, step) for name, step in self._steps.items()),
            broken=tuple(one for found in self._broken.values() for one in found),
            crashes=crashes,
            shuffles=shuffles,
            writes=len(first.written),
            left=left,
            called=tuple(sorted(first.real)),
            left_out=tuple(sorted(first.left_out)),
            notes=tuple(self._notes(left, may_fail=may_fail)),
            failed="took all of the time" if left and not crashes + shuffles else "" if may_fail else self._failed(),
        )

    def _failed(self) -> str:
        """How the undisturbed run ended, if that is no success."""
        outcome = self._first.outcome
        if outcome["status"] == "completed" or not Status(str(outcome["status"])).terminal:
            return ""
        error = outcome.get("error") or {}
        return f"ended as {outcome['status']}" + (f" ({error['type']} at {error['step']})" if error else "")

    def _step(self, name: str, step: _Step) -> StepReport:
        verdict = next((one for one in Verdict if one in step.evidence), self._good(name, step))
        evidence, schedule = step.evidence.get(verdict, ("", ""))
        return StepReport(name, verdict, step.runs, step.repeats, evidence, schedule)

    def _good(self, name: str, step: _Step) -> Verdict:
        if name not in self._first.real and name in {one.step for one in self._first.tried}:
            return Verdict.REPLACED
        if not step.repeats:
            return Verdict.ONCE
        if name in self._varying_steps:
            return Verdict.VARIES
        return Verdict.IDEMPOTENT if step.changed else Verdict.NO_EFFECT

    def _notes(self, left: int, *, may_fail: bool) -> Iterator[str]:
        if left:
            yield f"the time was too short for {left} more schedules: --seconds gives more"
        for name, count in self._counts.items():
            if count > _MOST_BROKEN:
                yield f"{count} schedules broke {name}; {_MOST_BROKEN} are shown"
        if self._in_another_order:
            yield f"in {self._in_another_order} schedules the effects came in another order, and were the same"
        for title, places in (("the run", self._varying_outcome), ("the outside", self._varying_outside)):
            if places:
                yield f"undisturbed runs differ by themselves, so this is not compared: {title} at {_told(places)}"
        for name in sorted(self._varying_steps):
            yield f"{name} returns something else in each fresh run; only its effects tell whether it may run twice"
        waits, failed = self._first.outcome.get("waiting_for"), self._failed()
        if waits:
            yield f"the undisturbed run still waits for {waits}: give an answer with --approve or --answers"
        elif failed:
            mocks = "".join(f", what {name} returns (--mock {name}=JSON)" for name in sorted(self._first.left_out)[:3])
            advice = "" if may_fail else f": give it an input or other answers{mocks}, or say that it may: --may-fail"
            yield f"the undisturbed run {failed}{advice}"


def _told_effect(change: Change) -> str:
    return f"run again, it changed {'.'.join(change.path)} from {short(change.expected)} to {short(change.came)}"


def _told(places: frozenset[Path]) -> str:
    return ", ".join(".".join(place) or "all of it" for place in sorted(places)[:5])


def _varying_steps(even: Sequence[Ended]) -> Iterator[str]:
    """The steps that return something else in each fresh undisturbed run."""
    results: dict[tuple[str, str, int], list[Json]] = defaultdict(list)
    for ended in even:
        for tried in ended.tried:
            results[tried.slot].append(tried.result)
    return (slot[0] for slot, found in results.items() if any(one != found[0] for one in found))

"""What a verification found: a verdict for each step, and each promise that did not hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from stepwell.definition.graph import Json


class Verdict(StrEnum):
    """What is known of a step's code that ran again for one commit."""

    EFFECT_TWICE = "not idempotent"  # run again, it changed the outside again
    OTHER_RESULT = "another result"  # run again, it returned something else, although fresh runs return the same
    LOST = "may be lost"  # at_most_once: a crash leaves its outcome unknown
    IDEMPOTENT = "idempotent"  # it changed the outside once, and returned the same
    NO_EFFECT = "no effect seen"  # the same result, and it changed nothing that was looked at
    VARIES = "varies"  # fresh runs return something else each, so results cannot be compared
    REPLACED = "replaced"  # its own code never ran
    ONCE = "never repeated"

    @property
    def is_bad(self) -> bool:
        """Returns whether the workflow does not hold because of it."""
        return self in {Verdict.EFFECT_TWICE, Verdict.OTHER_RESULT}


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step: how often its code ran for nothing, and the first evidence of its verdict."""

    step: str
    verdict: Verdict
    runs: int
    repeats: int  # runs for a commit for which the code had run before
    evidence: str = ""
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that differed from the undisturbed run. `what`: result, effects, compensations, status, fault, …"""

    what: str
    schedule: str
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a verification. `str(report)` tells them to a person."""

    workflow: str
    undisturbed: Json
    steps: tuple[StepReport, ...]
    broken: tuple[Broken, ...]
    crashes: int  # schedules in which a worker died at one write
    shuffles: int  # schedules in which every message came twice, in any order
    writes: int  # of the undisturbed run
    left: int = 0  # schedules for which the time was too short
    called: tuple[str, ...] = ()  # steps whose own code ran
    left_out: tuple[str, ...] = ()  # calls of other systems that were not made
    notes: tuple[str, ...] = field(default=())
    failed: str = ""  # how the undisturbed run ended, where nobody asked for a failure: then nothing is proven

    @property
    def holds(self) -> bool:
        """Returns whether result, effects and compensations are those of an undisturbed run, and steps may repeat.

        No workflow holds whose undisturbed run failed: what comes after the failure was never tried.
        """
        return not self.failed and not self.breaks

    @property
    def breaks(self) -> bool:
        """Returns whether something differed from the undisturbed run, or a step may not repeat."""
        return bool(self.broken) or any(one.verdict.is_bad for one in self.steps)

    @property
    def verdict(self) -> str:
        """Returns what is found of the workflow, in words."""
        if self.breaks:
            return "does not hold"
        return f"proves nothing: its undisturbed run {self.failed}" if self.failed else "holds"

    def to_json(self) -> dict[str, Any]:
        """Returns the report for programs."""
        return {"holds": self.holds, **asdict(self)}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Returns the report as lines of text."""
        verdict, colon, why = self.verdict.partition(":")
        told = [f"{self.workflow}: {verdict if self.holds else verdict.upper()}{colon}{why}; {self.crashes} crashes at "
                f"{self.writes} writes, {self.shuffles} schedules of doubled and reordered messages"]  # fmt: skip
        for one in self.steps:
            times = f"ran {one.runs} times, {one.repeats} for nothing"
            told.append(f"  {one.step}: {one.verdict} ({times}){f': {one.evidence}' if one.evidence else ''}")
        told += [f"  {one.what}: {one.detail}  [{one.schedule}]" for one in self.broken]
        return told + [f"  note: {note}" for note in self.notes]

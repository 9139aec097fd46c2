"""A shop whose steps fail until they are mended, for tests of redrives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.kit import Run, Stepwell

FOLDER = Path(__file__).parent / "functions"


class Shop:
    """Steps, and what each was called for. `broken`: (step, item) that fail until they are mended."""

    def __init__(self, kit: Stepwell, *broken: tuple[str, str]) -> None:
        self.kit, self.broken, self.calls, self.keys = kit, set(broken), list[tuple[str, str]](), set[str]()
        kit._steps.run = self._run  # type: ignore[method-assign]  # of this kit

    async def _run(self, call: StepCall) -> Outcome:
        item = "".join(map(str, call.input.get("args", call.input.values())))
        self.calls.append((call.node, item))
        if (call.node, item) in self.broken:
            self.keys.add(call.key)
            return Outcome(failure=Failure("ValueError", "step", f"no {call.node} today", call.node, call.attempt))
        return Outcome(value=f"{call.node} {item}")

    def fails(self, workflow: str, items: list[str]) -> Run:
        run = self.kit.start(workflow, {"items": items})
        assert run.status == "failed", run.status
        return run

    def mended(self, run: Run) -> tuple[Run, Counter[tuple[str, str]]]:
        """The run that goes on, and what it had to call."""
        self.broken.clear()
        self.calls.clear()
        again = run.redrive()
        self.kit.advance("2h")
        return again, Counter(self.calls)

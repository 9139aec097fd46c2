"""Pauses of workflows, for callers."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.built_in import BUILT_IN
from stepwell.errors import Conflict, InvalidInput
from stepwell.limits import WORKFLOW_PAUSES
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.loop.pauses import Pauses, WorkflowPause
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.ports import EVERY, Ports
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.admission import check_json


class WorkflowPauses:
    """Pauses a workflow, or EVERY one. New runs are accepted meanwhile, and stop before their first step."""

    def __init__(self, ports: Ports, catalog: Catalog, pauses: Pauses, stopping: Stopping) -> None:
        self._ports, self._catalog, self._pauses, self._stopping = ports, catalog, pauses, stopping

    async def all(self) -> Mapping[str, WorkflowPause]:
        """Returns the current pauses by workflow."""
        return await self._pauses.all()

    async def of(self, workflow: str) -> WorkflowPause | None:
        """Returns the pause that stops runs of this workflow: its own, or that of all. None: no pause does."""
        return None if workflow in BUILT_IN else await self._pauses.now(workflow)

    async def pause(self, workflow: str, reason: str = "", who: str = "") -> tuple[WorkflowPause, bool]:
        """Pauses the workflow with one write. Returns the pause, or the one that was there, and whether it is that one.

        Raises NotFound, InvalidInput, Conflict `too_many_pauses`.
        """
        check_json([reason, who], "reason")
        await self._check(workflow)
        if workflow != EVERY and len(await self._pauses.all()) >= WORKFLOW_PAUSES:
            raise Conflict(f"{WORKFLOW_PAUSES} workflows are paused", code="too_many_pauses",
                           hint="pause all workflows instead, or unpause some")  # fmt: skip
        pause = WorkflowPause(workflow, self._ports.clock.now_ms(), who, reason)
        while not await self._pauses.add(pause):
            if (there := await self._pauses.get(workflow)) is not None:
                return there, True
        return pause, False

    async def unpause(self, workflow: str) -> WorkflowPause:
        """Ends the pause and returns it. Raises NotFound, Conflict `not_paused`."""
        pause = await self._pauses.get(workflow)
        if pause is None:
            await self._check(workflow)
            what = "all workflows" if workflow == EVERY else workflow
            raise Conflict(f"there is no pause of {what}", code="not_paused",
                           hint="stepwell stats shows what is paused")  # fmt: skip
        await self._stopping.unpause(pause)
        return pause

    async def _check(self, workflow: str) -> None:
        """Raises NotFound unless the workflow is deployed or has runs, InvalidInput if it is built in."""
        if workflow in BUILT_IN:
            raise InvalidInput(f"{workflow} cannot be paused", code="built_in", hint="pause the run itself")
        if workflow == EVERY or workflow in self._catalog.current:
            return
        if not (await self._ports.runs.list_runs(RunQuery(workflow, limit=1))).headers:
            self._catalog.named(workflow)  # raises it

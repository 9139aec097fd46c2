"""The handler that deletes a run."""

from __future__ import annotations

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import EraseQuery


async def delete_run(call: Call) -> Answer:
    """Deletes a run, with its child runs and all data of theirs."""
    asked, run_id = call.asked(EraseQuery), call.path["run_id"]
    erased = await call.parts.eraser.delete(run_id, force=asked.force, who=call.told(""))
    await call.parts.eraser.scrub()
    return Answer(200, {"run_id": run_id, "deleted_runs": erased.runs, "deleted_items": erased.items})


ERASING_ROUTES = (
    Route("DELETE", "/runs/{run_id}", delete_run, "Delete a run, its child runs and all their data",
          {200: "deleted", 404: "no such run", 409: "the run, or a child run, has not ended: see `force`"},
          "ErasedView", query=EraseQuery),
)  # fmt: skip

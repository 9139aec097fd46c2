"""A FastAPI service in front of the workflow: it starts refunds, shows them, and takes a person's answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from refunds import Claim, Decision, refund

from stepwell import AsyncClient
from stepwell.client import ConflictProblem, NotFoundProblem

app = FastAPI()
_client = AsyncClient()  # one for the whole process: it keeps its connections


def stepwell() -> AsyncClient:
    return _client


Stepwell = Annotated[AsyncClient, Depends(stepwell)]


@app.post("/refunds", status_code=202)
async def claim_refund(claim: Claim, client: Stepwell) -> dict[str, str]:
    """Starts one refund for each order, however often the customer clicks."""
    try:
        run = await client.start(refund, claim, id=f"refund-{claim.order_id}")
    except ConflictProblem as other:  # the order's refund has another amount
        raise HTTPException(409, str(other)) from other
    return {"id": run.id}


@app.get("/refunds/{run_id}")
async def show_refund(run_id: str, client: Stepwell) -> dict[str, Decision | str | None]:
    """Shows how far a refund is."""
    run = client.handle(run_id, refund)
    try:
        status = await run.status()
    except NotFoundProblem as missing:
        raise HTTPException(404, "no such refund") from missing
    return {"status": status, "decision": await run.result() if status == "completed" else None}


@app.post("/refunds/{run_id}/approval")
async def approve_refund(run_id: str, by: str, client: Stepwell) -> None:
    """Takes a person's yes."""
    try:
        await client.handle(run_id).approve(by=by)
    except ConflictProblem as late:
        raise HTTPException(409, "the refund waits for nobody") from late

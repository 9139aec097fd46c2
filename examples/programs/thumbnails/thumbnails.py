"""A fan-out: a thumbnail of each of 1,000 pictures, five at a time; what cannot be read is listed, and ends nothing."""

from __future__ import annotations

import images

from stepwell import Retry, WorkflowContext, step, workflow

AT_ONCE = 5
TOLERATED = 10  # percent of the pictures


@step(retry=Retry(2), timeout="30s")
def shrink(picture: str) -> str:
    return images.shrink(picture)


@workflow
async def thumbnails(ctx: WorkflowContext, pictures: list[str]) -> dict[str, dict[str, str]]:
    """Returns the thumbnails, and what failed. Fails itself once more than a tenth of the pictures have."""
    results = await ctx.map(shrink, pictures, max_concurrency=AT_ONCE, tolerate={"percent": TOLERATED})
    made: dict[str, str] = {}
    failed: dict[str, str] = {}
    for picture, result in zip(pictures, results, strict=True):
        if isinstance(result, BaseException):
            failed[picture] = str(result)
        else:
            made[picture] = result
    return {"made": made, "failed": failed}

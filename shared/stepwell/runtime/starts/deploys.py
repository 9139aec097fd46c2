"""Deploys: changed code wakes every run that waits for code."""

from __future__ import annotations

from stepwell.engine.waits.code import DEPLOYED_TOPIC
from stepwell.runtime.log.messages import Deployed, to_json
from stepwell.runtime.ports import Lane, Ports


async def tell_deployed(ports: Ports, deploy_id: str) -> int:
    """Has every token that waits for code try it again. Returns how many runs they belong to."""
    waiters = await ports.mailbox.waiters(DEPLOYED_TOPIC)
    await ports.queue.send(Lane.RESUME, to_json(Deployed(deploy_id)))
    return len({waiter.run_id for waiter in waiters})

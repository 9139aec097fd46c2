"""Makes the session of a function, or of a branch, from its coroutine, without running any of it."""

from __future__ import annotations

import inspect
import random
from functools import partial
from typing import Any

from stepwell.errors import UserError
from stepwell.runtime.durable.failures import raised
from stepwell.runtime.durable.handlers import function_failure
from stepwell.runtime.durable.loop import Loop
from stepwell.runtime.durable.made import Made
from stepwell.runtime.durable.operations import stored
from stepwell.runtime.durable.running import FunctionSession
from stepwell.runtime.log.standing import Standing


def session_of(
    at: Standing, body: Any, slot: int, since_ms: int, state: Any, is_whole: bool = False
) -> FunctionSession:
    """Returns a session for a coroutine, of the function or a branch. Raises UserError for any other object."""
    if not inspect.iscoroutine(body):
        raise UserError(f"{type(body).__name__} cannot run as a branch; give an `async def`", code="foreign_await")
    loop = Loop(body)
    session = FunctionSession(
        loop,
        since_ms,
        raised=raised,
        failed=lambda error: function_failure(at, error, is_logged=not session.is_reading),
        stored=partial(stored, what="what the workflow returned"),
        slot=slot,
        is_whole=is_whole,
    )
    loop.attach(session)
    session.running_loop = loop.running
    session.queries, session.updates, session.validators, session.made = {}, {}, {}, Made()
    session.links = set()
    session.run_id = at.run_id
    session.state, session.place = state, f"{at.run_id}|{at.token.id}"
    session.is_reading = at.token.ended
    session.chance = random.Random(f"{at.token.first_run or at.run_id} {at.token.id} {slot}")  # noqa: S311 - no secret
    return session

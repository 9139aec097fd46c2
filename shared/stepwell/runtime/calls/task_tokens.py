"""Task tokens: put into the input of an answered step, right before it runs, so that no record holds them."""

from __future__ import annotations

from stepwell.definition.graph import CALLBACK_MARK, Json, Step
from stepwell.engine.actions import RunStep
from stepwell.engine.copying import changed
from stepwell.errors import UserError
from stepwell.limits import DAY_MS, YEAR_MS
from stepwell.runtime.calls.callbacks import step_callback
from stepwell.runtime.calls.links import CallbackLink, Links
from stepwell.runtime.log.standing import Standing


class TaskTokens:
    """Signs the tokens of steps' callbacks. `links`: None where nothing can be signed."""

    def __init__(self, links: Links | None) -> None:
        self._links = links

    def put_in(self, at: Standing, action: RunStep) -> RunStep:
        """Returns the action with the token where its input has the mark. Raises UserError, PortError without a key."""
        if action.step.callback is None:
            return action
        mark, callback = CALLBACK_MARK + at.run_id, step_callback(at.run_id, at.token.id, action.key)
        if callback is None or not _has(mark, action.input):
            return action
        if self._links is None:
            raise UserError("this process has no key to sign a task token with", code="no_callback")
        since_ms = at.token.last_ms or at.run.created_ms  # a redelivery makes the same token
        link = CallbackLink(callback, since_ms + _good_ms(action.step))
        token = self._links.callback_token(link)
        return changed(action, input=_replaced(action.input, mark, token))


def _good_ms(step: Step) -> int:
    """Returns a little more than the wait's own limit, which counts from when the step begins."""
    wait = step.callback
    return DAY_MS + (YEAR_MS if wait is None or wait.timeout_ms is None else wait.timeout_ms)


def _has(mark: str, value: Json) -> bool:
    if isinstance(value, str):
        return mark in value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has(mark, one) for one in inner)


def _replaced(value: Json, mark: str, token: str) -> Json:
    if isinstance(value, str):
        return value.replace(mark, token)
    if isinstance(value, dict):
        return {key: _replaced(one, mark, token) for key, one in value.items()}
    return [_replaced(one, mark, token) for one in value] if isinstance(value, list) else value

"""The context of a step: its parameter named `ctx`."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, MutableMapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Json
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.errors import UserError
from stepwell.values import dataclass

_LONGEST_MS = SCHEMAS["callback"].longest_ms
_logger = logging.getLogger("stepwell.step")


class ContextLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the ids of its context to what the caller gives as `extra`."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **kwargs.get("extra", {})}}


@dataclass(frozen=True, slots=True)
class StepContext:
    """One attempt of a step, seen from inside."""

    run_id: str
    workflow: str
    step: str
    token: str
    attempt: int  # from 1
    idempotency_key: str  # the same in every try of this step in this visit: pass it on
    timeout_seconds: float
    resumed: Json = None  # the result of the wait that this step asked for with then="again"
    _scope: Json = field(default=None, repr=False)
    _beat: Callable[[], None] = field(default=lambda: None, repr=False)
    _url: Callable[[int], str] | None = field(default=None, repr=False)  # callback URL for so many ms

    _emit: Callable[[Any], None] = field(default=lambda data: None, repr=False)

    @property
    def state(self) -> Json:
        """Returns the scope as it was when the attempt began; a new copy each time."""
        from stepwell.engine.names import shown_names  # noqa: PLC0415 - `import stepwell` does without

        return copy.deepcopy(shown_names(self._scope)) if isinstance(self._scope, dict) else None

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Returns a logger whose entries carry the ids of run, step and attempt."""
        ids = {"run_id": self.run_id, "workflow": self.workflow, "step": self.step, "attempt": self.attempt}
        return ContextLogger(_logger, ids)

    def callback_url(self, timeout: str | float = "24h") -> str:
        """Returns the URL to which somebody outside posts the result that `wait_for_callback` then waits for.

        It works once, and for this time, which is also how long the directive waits. Whoever has it may end the wait:
        keep it out of results and logs. Raises UserError for an invalid timeout, Transient if the key that signs it is
        not available.
        """
        timeout_ms = parse_duration(timeout)
        if not 0 < timeout_ms <= _LONGEST_MS:
            raise UserError("a callback's URL is good for a while, and for a year at most", code="timeout_too_long")
        if self._url is None:
            raise UserError("only a step of the workflow waits for a callback", code="no_callback",
                            hint="not what undoes one, nor a time-out's action")  # fmt: skip
        return self._url(timeout_ms)

    def emit(self, data: Any) -> None:
        """Shows JSON to readers of the run's output, now and for an hour. It is in no record, and costs a write.

        Each attempt starts its output anew. Output that cannot be written is dropped. Raises BadOutputError for a value
        that is not JSON.
        """
        self._emit(data)

    if not TYPE_CHECKING:  # a type checker reports it in its own words

        def __getattr__(self, name: str) -> Any:
            message = f"a step's ctx has no {name!r} (operations are a workflow's: let it await this function itself)"
            raise AttributeError(message, name=name, obj=self)

    def heartbeat(self) -> None:
        """Says that the step is alive. Raises StepInterrupted once its time is up, so that a loop ends there."""
        self._beat()

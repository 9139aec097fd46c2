"""The port to users' code: runs steps and asks durable functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.copying import quick
from stepwell.engine.durable.turns import Stuck
from stepwell.engine.records import Failure, Record
from stepwell.engine.retry import Policy
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass


@quick
@dataclass(frozen=True)
class StepCall:
    """One attempt, as the executor gets it."""

    run: str
    input: Json
    run_id: str
    workflow: str
    token: str
    node: str
    attempt: int
    key: str
    timeout_ms: int
    resumed: Json
    read_state: Callable[[], Json]
    shown: str = ""  # the node that people see for this one
    request: Json = None  # of an HTTP step
    emit: Callable[[Json], None] | None = None  # writes to the readers of the run's output
    trace: str = ""  # the `traceparent` for systems that the step calls
    late_ms: int = 0  # the time after which `late` is awaited if the attempt still runs
    is_shared: bool = False  # `late` is for others: a step that took long last time does not delay them
    late: Callable[[], Coroutine[Any, Any, None]] | None = None  # runs the other work of its worker's message beside it

    @property
    def state(self) -> Json:
        """Returns the state as expressions see it. Few steps ask."""
        return self.read_state()


WriteRecord: TypeAlias = Callable[[Record], Awaitable[bool]]
Updated: TypeAlias = Standing | Failure | Stuck | None


class Steps(Protocol):
    """Runs users' code. Never raises: whatever happens in a step is an Outcome."""

    def policy(self, step: Step) -> Policy:
        """Returns the definition's options, completed by the function's own."""

    def run(self, call: StepCall) -> Awaitable[Outcome]: ...

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        """Runs an attempt of the function given to `ctx.run`. None: its function does not ask for it now."""

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        """Returns the token with its durable function's turn."""

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        """Returns the durable function's answer to a query. Raises NotFound, Conflict."""

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        """Runs the update's handler. Returns the token once `write` has kept its record.

        None: not now; what the handler did is forgotten then. A failure: its validator refused it. Stuck: not with
        the code that is deployed.
        """

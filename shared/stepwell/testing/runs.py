"""A run as a test sees it: what the API shows of it, and what callers do to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.api.runs.branches import read_branches
from stepwell.client.errors import UpdateFailed
from stepwell.client.forks import last_fork
from stepwell.definition.child_names import child_names
from stepwell.definition.graph import Json
from stepwell.errors import Conflict
from stepwell.limits import FORK_WIDTH
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.frames import hidden

if TYPE_CHECKING:
    from stepwell.testing.kit import Stepwell


@dataclass(frozen=True, slots=True)
class Step:
    """The state of one node."""

    status: str
    output: Json
    error: Mapping[str, Json] | None
    attempts: int


class _Steps(dict[str, Step]):
    """The steps that a run has reached."""

    def __missing__(self, name: str) -> Step:
        __tracebackhide__ = True
        raise KeyError(f"the run has not reached {name!r}: it has been at {', '.join(self) or 'no step'}")


class _Children(dict[str, "Run"]):
    """The child runs that a run has started."""

    def __missing__(self, name: str) -> Run:
        __tracebackhide__ = True
        raise KeyError(f"the run has no child run {name!r}: it has {', '.join(self) or 'none'}")


@hidden
class Run:
    """One run; each access shows its current state."""

    def __init__(self, kit: Stepwell, run_id: str) -> None:
        self._kit, self.id = kit, run_id

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.status} at {', '.join(self.view['current_steps']) or 'the end'}>"

    @property
    def view(self) -> Mapping[str, Any]:
        """The run as GET /runs/{id} shows it."""
        return self._kit.view(self.id)

    @property
    def status(self) -> str:
        return str(self.view["status"])

    @property
    def phase(self) -> str:
        return str(self.view["phase"])

    @property
    def state(self) -> Mapping[str, Json]:
        found: Mapping[str, Json] = self.view["state"]
        return found

    @property
    def result(self) -> Json:
        return self.view["result"]

    @property
    def error(self) -> Mapping[str, Json] | None:
        found: Mapping[str, Json] | None = self.view["error"]
        return found

    @property
    def waiting_for(self) -> str | None:
        found: str | None = self.view["waiting_for"]
        return found

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps by node name, without nodes that were not reached."""
        views: Mapping[str, Any] = self.view["steps"]
        return _Steps(
            (name, Step(view["status"], view["output"], view["error"], view["attempts"]))
            for name, view in views.items()
        )

    def branches(self, fork: str = "") -> list[Mapping[str, Any]]:
        """Returns the branches of a fork by id, such as `0/3`, or of the current fork, else of the last one."""
        self._kit.settle()
        found = run_now(self._kit.service.branches(self.id, fork, 0, FORK_WIDTH))
        if not fork and not found and (last := last_fork(self.history)):
            found = run_now(self._kit.service.branches(self.id, last, 0, FORK_WIDTH))
        views = run_now(read_branches(self._kit.service, found))
        return [*views]

    @property
    def children(self) -> Mapping[str, Run]:
        """The child runs by name, or by `step.name` if that is used again: then `step.name_2`, `step.name_3` …"""
        views: list[Mapping[str, Any]] = self.view["children"]
        count = Counter(view["name"] for view in views)
        names = [view["name"] if count[view["name"]] == 1 else f"{view['step']}.{view['name']}" for view in views]
        keys = child_names([(name, None) for name in names])
        return _Children((key, Run(self._kit, view["run_id"])) for key, view in zip(keys, views, strict=True))

    @property
    def rollback(self) -> Mapping[str, Any] | None:
        """The rollback as the API shows it; None for a run that never compensated."""
        found: Mapping[str, Any] | None = self.view["rollback"]
        return found

    @property
    def history(self) -> list[Mapping[str, Any]]:
        """The history entries, oldest first."""
        return self._kit.history(self.id)

    def approve(self, data: Json = None, by: str = "", wait: str = "") -> None:
        """Answers the approval. Raises Conflict if no wait expects it."""
        self._kit.settle()
        run_now(self._kit.service.approve(self.id, data, by, wait))

    def reject(self, reason: str = "", by: str = "", wait: str = "") -> None:
        """Answers the approval. Raises Conflict if no wait expects it."""
        self._kit.settle()
        run_now(self._kit.service.reject(self.id, reason, by, wait))

    def delegate(self, by: str, to: str, wait: str = "") -> None:
        """Delegates an approval from `by` to `to`. Raises Conflict if no wait expects it."""
        self._kit.settle()
        run_now(self._kit.service.delegate(self.id, by, to, wait))

    def event(self, name: str, payload: Json = None, event_id: str = "") -> None:
        """Sends an event to this run only."""
        run_now(self._kit.service.send_event(name, payload, run_id=self.id, event_id=event_id))

    def export(self) -> list[Json]:
        """Returns the lines of `stepwell export`, for a replay."""
        return self._kit.export(self.id)

    def query(self, name: str) -> Json:
        """Calls a query handler of the function. Raises NotFound, Conflict."""
        self._kit.settle()
        return run_now(self._kit.service.query(self.id, name))

    def update(self, name: str, given: Json = None, update_id: str = "") -> Json:
        """Calls an update handler. Raises UpdateFailed with its error, Conflict if the update is still pending."""
        self._kit.settle()
        sent = run_now(self._kit.service.update(self.id, name, given, update_id))
        self._kit.settle()
        answered = run_now(self._kit.service.update_answer(self.id, sent))
        if answered is None:
            raise Conflict(
                f"update {name} is pending: the function is not at a wait, or its handler goes on",
                code="update_pending",
            )
        if answered.error is not None:
            raise UpdateFailed(answered.error)
        return answered.output

    def cancel(self, reason: str = "", by: str = "") -> bool:
        """Ends the run. Returns False if it had already ended."""
        self._kit.settle()
        return run_now(self._kit.service.cancel(self.id, reason, by))

    def pause(self, reason: str = "", by: str = "") -> None:
        """Stops the run before its next step. Raises Conflict."""
        run_now(self._kit.service.pause(self.id, reason, by))

    def unpause(self) -> None:
        """Has the run go on. Raises Conflict if it is not paused."""
        run_now(self._kit.service.unpause(self.id))

    def redrive(self, since: str = "", version: str = "", by: str = "") -> Run:
        """Goes on from where this run failed, as a new run. Raises Conflict, InvalidInput, NotFound."""
        self._kit.settle()
        return Run(self._kit, run_now(self._kit.service.redrive(self.id, since, version, by)).header.run_id)

    def fork(self, at: int, **changes: Any) -> Run:
        """Goes on from the slot `at`, as a new run with another `input`, `state`, `result`, `workflow` or `version`.

        Raises Conflict, InvalidInput, NotFound.
        """
        self._kit.settle()
        given: dict[str, Any] = {name: (one,) if name in ("input", "result") else one for name, one in changes.items()}
        asked = RunFork(at, **given)
        service = self._kit.service
        return Run(self._kit, run_now(service.forker.fork(run_now(service.header(self.id)), asked)).header.run_id)

    def rerun(self, version: str = "") -> Run:
        """Starts this run anew, with the same input and tags. Raises InvalidInput, NotFound."""
        return Run(self._kit, run_now(self._kit.service.rerun(self.id, version=version)).header.run_id)

    def terminate(self, reason: str = "", by: str = "") -> bool:
        """Ends the run. Returns False if it had already ended."""
        self._kit.settle()
        return run_now(self._kit.service.terminate(self.id, reason, by))

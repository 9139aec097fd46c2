"""One trial: a run from its start to its end under one plan, and its outcome."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stepwell.definition.graph import Graph, Json, Limit
from stepwell.engine.approvals import asked, open_approvals
from stepwell.engine.records import ROOT
from stepwell.engine.token import Token
from stepwell.errors import Conflict, StepwellError, UserError
from stepwell.limits import FORK_WIDTH
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Inbox
from stepwell.memory.store import MemoryStore
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.starts.starting import Start
from stepwell.testing.backend import START_MS, Backend, ports_of
from stepwell.testing.kit import Stepwell
from stepwell.testing.mocks import MockedSteps
from stepwell.testing.verify.answers import Answer, named_arm
from stepwell.testing.verify.chaos import Chaos, ChaosDriver, OutOfTime, Plan, ShuffledQueue, Written
from stepwell.testing.verify.guard import Guard, guarding
from stepwell.testing.verify.seen import Outside, Replaced, SeenSteps, Tried

RUN_ID = "verified"
LOST = "outcome_unknown"
MOST_MOVES = 2_000  # of the clock, in one trial: a workflow that goes on for years is compared as far as it got


@dataclass(frozen=True, slots=True)
class Case:
    """What is verified. `reset` begins the outside anew; None: modules are imported anew, in a scratch folder."""

    folder: Path
    graphs: tuple[Graph, ...]
    limits: Mapping[str, Limit]
    workflow: str
    input: Json
    answers: Sequence[Answer]
    approves_all: bool
    replaced: Replaced
    snapshot: Callable[[], object] | None
    reset: Callable[[], object] | None
    is_guarded: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a trial: the end of the run as JSON, with the outside, and what its steps did."""

    plan: Plan
    outcome: dict[str, Json]
    outside: dict[str, Json]
    tried: tuple[Tried, ...]
    written: tuple[Written, ...]
    real: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()  # steps that failed because nobody knows how they ended
    fault: str = ""  # of the engine, or a workflow without an end


class Trial(Stepwell):
    """The testing kit over ports that a plan disturbs. For one run."""

    def __init__(self, case: Case, plan: Plan, guard: Guard, outside: Outside, until: float) -> None:
        self._case, self.chaos, self._guard, self._outside = case, Chaos(plan, until), guard, outside
        self._updates: list[tuple[str, str]] = []  # the name and the id of each that was sent
        clock, self.store = VirtualClock(START_MS), MemoryStore()
        queue = ShuffledQueue(clock, plan)
        store = self.store
        ports = ports_of(store, queue, clock)
        outside.tables = self._all_tables
        super().__init__(case.folder, Backend(self.chaos.ports(ports), queue, clock), sessions=0)

    def _new_steps(self, sessions: int) -> MockedSteps:
        case = self._case
        self.seen = SeenSteps(case.folder, self._clock, self._links, case.replaced, self.chaos, self._guard,
                              self._outside)  # fmt: skip
        return self.seen

    def _new_driver(self, inbox: Inbox) -> ChaosDriver:
        self.driver = ChaosDriver(self._parts, inbox, self._clock, self.chaos, self._die)
        return self.driver

    def _load(self) -> Mapping[str, Json] | None:
        self._deploy(self._case.graphs, self._case.limits)
        return None

    def _die(self) -> None:
        """A worker's process is gone, with what its modules held in memory."""
        if self._case.reset is None:
            self.seen.reload()
        else:
            self.seen.close()

    def _all_tables(self) -> Json:
        return {f"{table} {place}": item for (table, place), item in sorted(self.store._items.items())}

    def play(self) -> None:
        """Starts the run, and answers it until it ends or waits for something that nobody does."""
        case, left = self._case, [*self._case.answers]
        refusal = self._call(lambda: self.service.start(Start(case.workflow, case.input, run_id=RUN_ID)))
        if refusal is not None:
            raise refusal
        for _ in range(MOST_MOVES):
            if self._header(RUN_ID).status.terminal:
                return
            if self._answered(left) or (case.approves_all and self._approved_all()):
                continue
            times = [START_MS + one.after_ms for one in left if one.after_ms is not None]
            due_ms = self.driver.next_due_ms()
            if due_ms is not None:
                times.append(due_ms)
            if not times:
                return
            self.driver.jump(min(times))
            self.settle()

    def _answered(self, left: list[Answer]) -> bool:
        """Gives the answers whose time has come, and else the first one for a wait. Returns whether one was taken."""
        elapsed_ms = self._clock.now_ms() - START_MS
        due = [one for one in left if one.after_ms is not None and one.after_ms <= elapsed_ms]
        first = next((one for one in left if one.after_ms is None), None)
        for answer in (*due, *([first] if first is not None else [])):
            refusal = self._give(answer, len(left))
            if refusal is None or answer.after_ms is not None:
                left.remove(answer)
            if refusal is None:
                return True
        return False

    def _give(self, answer: Answer, number: int) -> UserError | None:
        get, service = answer.get, self.service
        match answer.kind:
            case "approve":
                return self._at_wait(answer, partial(service.approve, RUN_ID, get("data"), get("by")))
            case "reject":
                return self._at_wait(answer, partial(service.reject, RUN_ID, get("reason"), get("by")))
            case "delegate":
                return self._at_wait(answer, partial(service.delegate, RUN_ID, get("by"), get("to")))
            case "event":
                to = {"run_id": RUN_ID} if get("to_run") else {"key": get("key")}
                send = partial(service.send_event, get("name"), get("payload"), event_id=f"answer-{number}", **to)
                return self._call(send)
            case "update":
                return self._update(str(get("name")), get("input"), f"answer-{number}")
        return self._call_back(answer)

    def _update(self, name: str, given: Json, update_id: str) -> UserError | None:
        refusal = self._call(partial(self.service.update, RUN_ID, name, given, update_id))
        if refusal is None:
            self._updates.append((name, update_id))
        return refusal

    def _answers(self) -> dict[str, Json]:
        """Returns the answers to the updates by their names, each list in the order in which they were sent."""
        found: dict[str, list[Json]] = {}
        for name, update_id in self._updates:
            found.setdefault(name, []).append(self._answer_to(update_id))
        return {**found}

    def _answer_to(self, update_id: str) -> Json:
        try:
            answered = run_now(self.service.update_answer(RUN_ID, update_id))
        except UserError as refusal:
            return {"refused": refusal.code}
        if answered is None:
            return {"pending": True}
        return {"output": answered.output} if answered.error is None else {"error": answered.error["type"]}

    def _at_wait(self, answer: Answer, make: Callable[[str], Coroutine[Any, Any, Any]]) -> UserError | None:
        """Answers at the first of its places that takes it: of a branch that has its node alone, the node will do."""
        refusal = None
        for place in dict.fromkeys((answer.get("wait"), answer.get("branch") or answer.get("wait"))):
            refusal = self._call(partial(make, place))
            if refusal is None:
                break
        return refusal

    def _call_back(self, answer: Answer) -> UserError | None:
        url = (self.view(RUN_ID)["waiting_data"] or {}).get("callback_url", "")
        if not url:
            return Conflict("no callback is waited for", code="not_waiting")
        link = self._links.callback(url.rpartition("/")[2], self._clock.now_ms())
        callbacks, get = self.service.callbacks, answer.get
        if get("error"):
            error = {"type": get("error"), "message": get("message"), "data": get("result")}
            return self._call(lambda: callbacks.fail(link, error))
        return self._call(lambda: callbacks.complete(link, get("result")))

    def _approved_all(self) -> bool:
        """Approves whatever waits for it, in the run, its branches and its child runs. True: something did."""
        votes = [(one.run_id, *vote) for one in self._open_runs() for vote in self._votes(one)]
        service = self.service
        refusals = [self._call(partial(service.approve, run_id, None, by, place)) for run_id, place, by in votes]
        return None in refusals

    def _votes(self, header: Header) -> Iterator[tuple[str, str]]:
        """Yields a vote for each approval that branches wait for, else the run itself: the place, and by whom."""
        branches = run_now(self.service.branches(header.run_id, "", 0, FORK_WIDTH))
        root = run_now(self.service.standing(header.run_id))
        for at in [one for one in branches if open_approvals(one.token)] or [root]:
            where = "" if at.token.id == ROOT else at.token.id
            for arm in open_approvals(at.token):
                yield where + named_arm(at.token.parked, arm), _voter(at.token, arm)

    def _call(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> UserError | None:
        return self.driver.call(make)

    def _open_runs(self) -> list[Header]:
        page = run_now(self.store.list_runs(RunQuery(limit=1_000)))
        return [one for one in page.headers if not one.status.terminal]

    def _header(self, run_id: str) -> Header:
        found = run_now(self.store.get_run(run_id))
        if found is None:
            raise LookupError(run_id)
        return found

    def outcome(self) -> dict[str, Json]:
        """The run as it stands: what must be the same however it was disturbed."""
        view = self.view(RUN_ID)
        error = view["error"]
        children = {child["name"]: self._header(child["run_id"]).status.value for child in view["children"]}
        return {
            "status": view["status"],
            "result": view["result"],
            "error": {"type": error["type"], "step": error["step"]} if error else None,
            "steps": {name: step["status"] for name, step in view["steps"].items()},
            "compensations": view["rollback"],
            "children": children,
            **({"updates": self._answers()} if self._updates else {}),
            **({"waiting_for": view["waiting_for"]} if view["waiting_for"] else {}),
        }

    def lost(self) -> frozenset[str]:
        """Returns the steps whose outcome is unknown, whether or not the workflow handled that."""
        steps = self.view(RUN_ID)["steps"].items()
        return frozenset(name for name, step in steps if (step["error"] or {}).get("type") == LOST)


def _voter(token: Token, arm: int) -> str:
    """Returns who may give this approval and has not yet; somebody of any name where several are asked by none."""
    need = token.parked.arms[arm].need if token.parked else 1
    return next(iter(asked(token, arm)), f"approver-{len(token.received) + 1}" if need > 1 else "")


def run_trial(case: Case, plan: Plan, guard: Guard, until: float = math.inf) -> Ended | None:
    """Plays a workflow once, from a fresh outside. Raises UserError if the run cannot be started.

    Returns None if the real time was over before, which is `until` by `time.monotonic`. A step that is at work then is
    not interrupted.
    """
    with _fresh(case) as outside, guarding(guard) if case.is_guarded else contextlib.nullcontext():
        trial = Trial(case, plan, guard, outside, until)
        try:
            fault = _play(trial)
            outcome = {} if fault else trial.outcome()
            seen = trial.seen
            return Ended(plan, outcome, outside.look(whole=True), tuple(seen.tried), tuple(trial.chaos.written),
                         frozenset(seen.real), frozenset(seen.left_out), frozenset(seen.once),
                         frozenset() if fault else trial.lost(), fault)  # fmt: skip
        except OutOfTime:
            return None
        finally:
            if case.reset is None:
                trial.seen.reload()
            trial.close()


def _play(trial: Trial) -> str:
    """Plays a trial. Returns the fault of the engine, or "". Raises UserError, OutOfTime."""
    try:
        trial.play()
    except UserError:
        raise
    except (StepwellError, AssertionError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@contextlib.contextmanager
def _fresh(case: Case) -> Iterator[Outside]:
    """Begins the outside anew: by the user's function, else in an empty folder, which is the current one."""
    if case.reset is not None:
        case.reset()
        yield Outside(None, case.snapshot)
        return
    with tempfile.TemporaryDirectory(prefix="stepwell-verify-") as folder, contextlib.chdir(folder):
        yield Outside(Path.cwd(), case.snapshot)


def stripped(graph: Graph) -> Graph:
    """Returns the graph without what starts runs by itself."""
    return replace(graph, schedules=(), event_triggers=())

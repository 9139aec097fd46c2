"""The context of a durable function: `ctx`, through which it does everything that has to be durable."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, MutableMapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from stepwell.definition.authoring import WORKFLOW_MARK, Duration, Retry
from stepwell.definition.context_values import condition, policy_of
from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Call, Child, Json, Step, Wait
from stepwell.definition.text import STEP_OPTIONS
from stepwell.engine.copying import changed
from stepwell.engine.durable.session import CURRENT
from stepwell.engine.durable.transact import TableWrite
from stepwell.engine.durable.turns import Asked, ContinueAs, Given
from stepwell.errors import InvalidInput
from stepwell.limits import KEY_CHARACTERS, LOCKS, YEAR_MS
from stepwell.runtime.durable.arguments import (
    approvers_of,
    called,
    check_awaited_key,
    check_handler_name,
    check_heartbeat,
    check_plain_key,
    check_step,
    checked_name,
    event_name,
    given_name,
    limit_ms_of,
    step_of,
    throttle_of,
    time_left,
    timeout_ms_of,
)
from stepwell.runtime.durable.calling import RunOptions, called_here
from stepwell.runtime.durable.combining import Combining
from stepwell.runtime.durable.held import Callback, Handler, Limit, Lock, limited_by, nothing
from stepwell.runtime.durable.misfits import telling
from stepwell.runtime.durable.misused import assigned, check_takes_no_context
from stepwell.runtime.durable.operations import (
    Operation,
    input_of,
    reader_of,
    result_reader,
    stored,
)
from stepwell.runtime.durable.running import FunctionSession, Logger, check_own, going_on, read_only, running
from stepwell.runtime.durable.sending import sent
from stepwell.runtime.durable.transacting import checked
from stepwell.values import dataclass

T = TypeVar("T")

_logger = logging.getLogger("stepwell.workflow")
Url = Callable[[str, int], str]  # makes a callback's URL from its id and its expiry in ms


@telling
@dataclass(frozen=True, slots=True)
class Context(Combining):
    """One run of a durable function, seen from inside."""

    run_id: str
    workflow: str
    _url: Url | None = field(default=None, repr=False)

    def __setattr__(self, name: str, value: object) -> None:
        raise assigned(name, is_known=hasattr(Context, name))

    def __delattr__(self, name: str) -> None:
        raise assigned(name, is_known=hasattr(Context, name))

    # -- operations

    def step(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        at_most_once: bool | None = None,
        pool: str | None = None,
        throttle: str | Mapping[str, Json] | Limit | None = None,
        **named: Any,
    ) -> Operation[Any]:
        """Runs a function of a module with these arguments, and retries it as its policy says.

        Its result is recorded; a failure is raised as StepFailed. `throttle`: the name of a limit in limits.yaml, or
        {"limit": NAME, "key": KEY}; else that of the `ctx.limit` around it. Raises InvalidInput for arguments that do
        not fit.
        """
        check_own(self.run_id)
        limit_ms = timeout_ms_of("a step", timeout)
        check_step(at_most_once, pool, limit_ms)
        known, own = step_of(function)
        step = changed(
            known,
            input=Given(input_of(function, args, named, STEP_OPTIONS)),
            timeout_ms=limit_ms,
            retry=policy_of(retry),
            at_most_once=at_most_once,
            pool=pool,
            throttle=limited_by(throttle),
        )
        return Operation(Asked("step", checked_name(given_name(name) or own), step=step), result_reader(function))

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        at_most_once: bool | None = None,
        **named: Any,
    ) -> Operation[Any]:
        """Runs any callable as a step, in the process where the workflow runs: a closure, a method, a lambda.

        A replay matches it by its name and does not call it again, so changes that it makes outside itself are lost.
        """
        check_own(self.run_id)
        return called_here(function, args, named, name, RunOptions(policy_of(retry), timeout, at_most_once))

    def sleep(self, duration: Duration | timedelta | datetime) -> Operation[None]:
        """Sleeps, at no cost. A number means seconds; at most a year. A datetime: until then, if it has not passed."""
        return self._timer("sleep", duration)

    def timer(self, duration: Duration | timedelta | datetime) -> Operation[None]:
        """Returns a sleep for `ctx.first`: its end tells that nothing else came in time."""
        return self._timer("timer", duration)

    def _timer(self, name: str, duration: Duration | timedelta | datetime) -> Operation[None]:
        check_own(self.run_id)
        given = time_left(duration, self.now()) if isinstance(duration, datetime) else duration
        return Operation(Asked("sleep", name, wait=Wait("sleep", timeout_ms=limit_ms_of("a sleep", given))), nothing)

    def event(
        self,
        name: str,
        *,
        key: str | int | None = None,
        match: str | None = None,
        timeout: Duration | timedelta | None = None,
        type: Any = None,  # noqa: A002 - the type of what comes
    ) -> Operation[Any]:
        """Waits for an event of this name, and key, and returns its payload. `match`: CEL over `event`.

        Without a `timeout` it waits as long as it takes; after one, WaitTimedOut is raised.
        """
        check_own(self.run_id)
        check_awaited_key(key)
        if key is not None and not 0 < len(str(key)) <= KEY_CHARACTERS:
            raise InvalidInput(f"`key` must be text of 1 to {KEY_CHARACTERS} characters", code="bad_key")
        wait = Wait(
            "event",
            event=event_name(name),
            key=None if key is None else Given(str(key), text=repr(key)),
            match=None if match is None else Given(None, text=condition(match)),
            timeout_ms=timeout_ms_of("an event", timeout),
        )
        return Operation(Asked("event", name, wait=wait), reader_of(type))

    def approval(
        self,
        type: str = "approval",  # noqa: A002 - the word the definitions use
        data: Any = None,
        *,
        approvers: list[str] | tuple[str, ...] | None = None,  # a text is a sequence of texts, too
        need: int = 1,
        timeout: Duration | timedelta | None = None,
    ) -> Operation[Mapping[str, Json]]:
        """Waits for a person's approval and returns {decision, by, data}; a rejection is raised as Rejected."""
        check_own(self.run_id)
        asked_of = approvers_of(approvers, need)
        shown: Json = stored(data, "data")
        shown = {"type": type, **shown} if isinstance(shown, dict) else {"type": type, "data": shown}
        wait = Wait("approval", data=Given(shown), approvers=asked_of, timeout_ms=timeout_ms_of("an approval", timeout))
        asked = Asked("approval", checked_name(type), wait=wait)
        return Operation(asked, reader_of(None))

    def callback(
        self,
        *,
        name: str = "callback",
        timeout: Duration | timedelta | None = None,
        heartbeat: Duration | None = None,
        type: Any = None,  # noqa: A002 - the type of what comes
    ) -> Callback:
        """Waits for a post to its own URL: `cb = ctx.callback()`, give `cb.url` away, `await cb`."""
        session = going_on(self.run_id)
        session.callbacks += 1
        own = f"{session.place}|f{session.callbacks}"
        limit_ms = timeout_ms_of("a callback", timeout)
        beat_ms = None if heartbeat is None else parse_duration(heartbeat)
        check_heartbeat(beat_ms, limit_ms)
        wait = Wait("callback", timeout_ms=limit_ms, heartbeat_ms=beat_ms)
        asked = Asked("callback", checked_name(name), wait=wait, callbacks=(own,))
        return Callback(asked, reader_of(type), lambda: self._url_of(session, own, limit_ms or YEAR_MS))

    def _url_of(self, session: FunctionSession, own: str, limit_ms: int) -> str:
        if self._url is None:
            raise InvalidInput("this process has no key to sign a callback's URL with", code="no_callback")
        url = self._url(own, session.now_ms + limit_ms)
        session.links.add(url.rpartition("/")[2])
        return url

    def child(
        self,
        workflow: str | Callable[..., Any],
        *args: Any,
        detached: bool = False,
        timeout: Duration | timedelta | None = None,
        type: Any = None,  # noqa: A002 - the type of its result
        **named: Any,
    ) -> Operation[Any]:
        """Starts a run of another workflow and waits for its result; its failure is raised as ChildFailed.

        A workflow of this folder can be given as its function, with its arguments; any other by its name, with its
        input. `detached`: nobody waits for the run; the operation returns its id.
        """
        check_own(self.run_id)
        given, name, read = called(workflow, args, named, type)
        if detached:
            step = Step(f"workflow:{name}", input=Given(given))
            return Operation(Asked("step", name, step=step), reader_of(None))
        limit_ms = timeout_ms_of("a child run", timeout)
        call = Call((Child(name, name, Given(given)),), timeout_ms=limit_ms)
        return Operation(Asked("children", name, call=call), lambda values: read(values[name]))

    def lock(self, *names: str | int) -> Lock:
        """Holds a lock: `async with ctx.lock("room-12"): …`. Waits for its turn; leaving the block releases it.

        Several names are taken together, in one order for all runs; a function holds one set at a time.
        """
        check_own(self.run_id)
        check_plain_key("the name of a lock", *names)
        texts = sorted({str(name) for name in names})
        if not 1 <= len(texts) <= LOCKS or not all(text.strip() and len(text) <= KEY_CHARACTERS for text in texts):
            raise InvalidInput(f"{names!r:.80} cannot be locked", code="bad_lock",
                               hint=f"1 to {LOCKS} names, each text of 1 to {KEY_CHARACTERS} characters")  # fmt: skip
        return Lock(tuple(texts))

    def limit(self, name: str, *, key: str | int | None = None) -> Limit:
        """Limits the steps within a block: `async with ctx.limit("stripe"): …`. The limit is one of limits.yaml.

        Each attempt of a step or of `ctx.run` takes a permit, waits for its turn if there is none, and gives it back
        however it ends. Between steps no permit is held. `key`: each value has the limit to itself. A step's `throttle`
        does the same, and takes this object too. Raises InvalidInput.
        """
        check_own(self.run_id)
        return Limit(throttle_of({"limit": name} if key is None else {"limit": name, "key": key}))

    def transact(self, writes: Iterable[TableWrite], *, name: str = "transact") -> Operation[None]:
        """Writes to DynamoDB tables in one transaction with this operation's record: once, or not at all.

        `writes`: Put, Update, Delete, Check, at most 99. If a condition does not hold, TransactionRefused is raised and
        nothing was written. Raises InvalidInput at once for writes that can never succeed.
        """
        check_own(self.run_id)
        return Operation(Asked("transact", checked_name(name), transact=checked(writes)), nothing)

    # -- values that are the same in each replay

    def now(self) -> datetime:
        """Returns when the last operation ended, from the log; UTC."""
        return datetime.fromtimestamp(running(self.run_id).now_ms / 1000, UTC)

    def random(self) -> float:
        """Returns a number from 0 to 1, the same in each replay."""
        return going_on(self.run_id).chance.random()

    def uuid(self) -> UUID:
        """Returns a unique id, the same in each replay."""
        return UUID(int=going_on(self.run_id).chance.getrandbits(128), version=4)

    def patched(self, name: str) -> bool:
        """Tells whether to run the code after a change: true for runs that get here for the first time after it."""
        session = going_on(self.run_id)
        if session.is_updating:
            raise InvalidInput("an update's handler asks for no patches", code="patch_in_update",
                               hint="ask in the workflow, and have the handler read a variable")  # fmt: skip
        return session.patched(checked_name(name))

    @property
    def state(self) -> MutableMapping[str, Any]:
        """Returns the state that the run shows. It is stored with the next record; branches and queries can read it."""
        session = running(self.run_id)
        return read_only(session.state) if session.is_answering else session.state

    def query(self, name: str, function: Callable[[], Any] | None = None) -> Any:
        """Registers the handler of a query: `@ctx.query("progress")` over a function without parameters.

        It is called on the run's current state whenever somebody asks, and changes nothing: it reads variables and
        `ctx.state`.
        """

        def register(function: Callable[[], Any]) -> Callable[[], Any]:
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise InvalidInput(
                    f"query {name} takes a plain function, not {function!r:.80}", code="bad_query_handler"
                )
            going_on(self.run_id).queries[checked_name(name)] = function
            return function

        check_handler_name("query", name)
        return register if function is None else register(function)

    def update(self, name: str, function: Callable[..., Any] | None = None) -> Any:
        """Registers the handler of an update: `@ctx.update("add_item")` over a function, plain or `async`.

        It is called once for each update, with the update's input as its arguments. It may change variables and
        `ctx.state`; what it returns, or raises, is the caller's answer. An `async` handler is a task of the function,
        and may await operations. `@handler.validator` over a plain function with the same parameters refuses an update
        by raising, before anything is written.
        """

        def register(function: Callable[..., Any]) -> Handler:
            if not callable(function):
                raise InvalidInput(f"update {name} takes a function, not {function!r:.80}", code="bad_update_handler")
            check_takes_no_context(name, function)
            going_on(self.run_id).updates[checked_name(name)] = function
            return Handler(name, function)

        check_handler_name("update", name)
        return register if function is None else register(function)

    @property
    def log(self) -> Logger:
        """Returns a logger that is silent in a replay."""
        return Logger(_logger, {"run_id": self.run_id, "workflow": self.workflow})

    def continue_as(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **named: Any) -> T:
        """Returns a value for the function to return: the run begins anew with these arguments.

        Its state is kept, and nothing before is replayed. The run goes on as the same function, or as another workflow
        of the folder; it keeps its name and options. For a type checker the value is what that function returns in the
        end.
        """
        check_own(self.run_id)
        name = getattr(function, WORKFLOW_MARK, None)
        if name is None:
            raise InvalidInput(f"{function!r} is no workflow", code="bad_value", hint="mark it with @workflow")
        if (made := getattr(CURRENT.get(None), "made", None)) is not None:
            made.begins_anew()
        path = "" if name == self.workflow else f"python:{function.__module__}.{function.__qualname__}"
        return ContinueAs(input_of(function, args, named), path)  # type: ignore[return-value]  # as said above

    def send(
        self, name: str, payload: Any = None, *, key: str | int | None = None, run: str | None = None
    ) -> Operation[str]:
        """Sends an event, once: to a run, or to any wait for the name, and key, now or later. Returns its id.

        Raises StepFailed if the run does not exist (`unknown_run`) or has ended (`run_ended`).
        """
        check_own(self.run_id)
        return sent(name, payload, key, run)

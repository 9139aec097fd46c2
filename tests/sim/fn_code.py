"""The one durable function of the simulator: it interprets the program that it is given, whatever that is.

A program is data: a list of statements, each with a value. The value of one reaches the next, and all reach the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from stepwell.definition.authoring import WORKFLOW_MARK, Retry
from stepwell.engine.durable.transact import Update
from stepwell.engine.records import Failure
from stepwell.errors import Cancelled
from stepwell.runtime.durable.context import Context
from stepwell.runtime.durable.failures import OperationFailed
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.logbook import Logbook
from tests.sim.asked_code import Takes
from tests.sim.fn_values import Statement, digest

CANNOT_IMPORT = Failure("ImportError", "step", "a module that was deployed in pieces", data={"code": "python:sim"})


_OF_TASKS = frozenset(
    {
        "gather",
        "late",
        "must",
        "group",
        "race",
        "limit",
        "nap",
        "begin",
        "join",
        "pool",
        "call",
        "every",
        "any",
        "until",
        "under",
        "lock",
        "transact",
    }
)


def work(say: int, given: Any = None, fails: int = 0) -> Any:
    """A step. What it does is the world's to say."""


def retry_of(one: Statement) -> Retry | None:
    if "retries" not in one:
        return None
    return Retry(one["retries"], "constant", one["pause"], "1h", "none", ("step",))


def workflow(name: str, deployed: Callable[[], int]) -> Callable[..., Awaitable[Any]]:
    """The function of this name. `deployed`: the version of its code, of which the second knows of patches."""

    async def run(ctx: Context, program: dict[str, Any]) -> Any:
        run_of = _Interpreter(ctx, deployed, functions)
        last = program.get("carry", 0)
        if "pays" in program:
            run_of.takes(program["pays"])
        values = await run_of.sequence(program["body"], last)
        if not program.get("again"):
            return values
        return ctx.continue_as(run, {**program, "again": program["again"] - 1, "carry": digest(values)})

    functions = {name: run}
    setattr(run, WORKFLOW_MARK, name)
    return run


class _Interpreter:
    """Runs statements with a context, as an author would have written them."""

    def __init__(self, ctx: Context, deployed: Callable[[], int], functions: Mapping[str, Any]) -> None:
        self._ctx, self._deployed, self._functions = ctx, deployed, functions
        self._begun: list[asyncio.Task[Any]] = []
        self._calls = 0
        self._takes: Takes

    def takes(self, pays: Sequence[Statement] | None) -> None:
        """Callers may ask for updates, whose async handler does this; None: they are plain."""
        self._takes = Takes(self._ctx, None if pays is None else lambda n: self.sequence(pays, n))

    async def sequence(self, body: Sequence[Statement], last: int) -> list[Any]:
        values: list[Any] = []
        for one in body:
            value = await self._value(one, last)
            values.append(value)
            last = digest([last, value])
        return values

    async def _value(self, one: Statement, last: int) -> Any:
        ctx = self._ctx
        match one["do"]:
            case "set":
                ctx.state[one["name"]] = last
                return None
            case "get":
                return ctx.state.get(one["name"])
            case "draw":
                return [str(ctx.uuid()), ctx.random()]
            case "now":
                return round(ctx.now().timestamp() * 1_000)
            case "try":
                return await self._tried(one, last)
            case "finally" | "shield":
                return await (self._at_last if one["do"] == "finally" else self._shielded)(one, last)
            case "patched":
                is_new = self._deployed() > 1 and ctx.patched(one["name"])
                return await self.sequence(one["new" if is_new else "old"], last)
            case "raise":
                raise ValueError(one["why"])
            case (
                "gather"
                | "late"
                | "must"
                | "group"
                | "race"
                | "limit"
                | "nap"
                | "begin"
                | "join"
                | "pool"
                | "call"
                | "every"
                | "any"
                | "until"
                | "under"
                | "lock"
                | "transact"
            ):
                return await self._tasks(one, last)
        return shown(one, await self._awaitable(one, last))

    async def _tried(self, one: Statement, last: int) -> Any:
        try:
            return await self.sequence(one["body"], last)
        except OperationFailed as error:
            return ["caught", error.type, await self.sequence(one["else"], last)]

    async def _at_last(self, one: Statement, last: int) -> Any:
        """As try and finally are, but quiet where a worker that died has left it behind."""
        try:
            values = await self.sequence(one["body"], last)
        except GeneratorExit:
            raise
        except BaseException:
            await self.sequence(one["after"], last)
            raise
        return [values, await self.sequence(one["after"], last)]

    async def _shielded(self, one: Statement, last: int) -> Any:
        """It swallows the cancel, and goes on as if nothing were."""
        try:
            return await self.sequence(one["body"], last)
        except Cancelled:
            return ["cancelled", await self.sequence(one["after"], last)]

    async def _under(self, one: Statement, last: int) -> Any:
        """Its step wants a permit."""
        async with self._ctx.limit(one["limit"]):
            return await self.sequence([one["of"]], last)

    async def _locked(self, one: Statement, last: int) -> Any:
        async with self._ctx.lock(one["name"]):
            return await self.sequence(one["body"], last)

    async def _transacted(self, one: Statement, last: int) -> Any:
        """Puts one into the till that all runs share, or takes one out if there is one."""
        takes = one["name"] == "take"
        change, least = {"left": -1 if takes else 1, "times": 1}, {"left": 1} if takes else {}
        try:
            await self._ctx.transact([Update("till", {"id": 1}, add=change, at_least=least)], name=one["name"])
        except OperationFailed as error:
            return ["refused", error.type]
        return change

    async def _tasks(self, one: Statement, last: int) -> Any:
        """What is written with asyncio."""
        own = {"race": self._race, "pool": self._pool, "call": self._call, "every": self._together,
               "any": self._together, "until": self._until, "under": self._under,
               "late": self._late, "lock": self._locked, "transact": self._transacted}.get(one["do"])  # fmt: skip
        if own is not None:
            return await own(one, last)
        match one["do"]:
            case "nap":
                return await asyncio.sleep(one["seconds"])
            case "gather":
                legs = [self.sequence(body, last) for body in one["of"]]
                return [_outcome(made) for made in await asyncio.gather(*legs, return_exceptions=True)]
            case "must":
                return await asyncio.gather(*(self.sequence(body, last) for body in one["of"]))
            case "limit":
                try:
                    async with asyncio.timeout(one["seconds"]):
                        return await self.sequence(one["body"], last)
                except TimeoutError:
                    return "late"
            case "begin":
                self._begun.append(asyncio.create_task(self.sequence(one["body"], last)))
                return None
            case "join":
                return await self._begun.pop(0) if self._begun else None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.sequence(body, last)) for body in one["of"]]
        except BaseExceptionGroup as errors:
            return ["broken", len(errors.exceptions)]
        return [task.result() for task in tasks]

    async def _late(self, one: Statement, last: int) -> Any:
        """Fails as the first of its tasks, once all have ended."""
        made = await asyncio.gather(*(self.sequence(body, last) for body in one["of"]), return_exceptions=True)
        for error in made:
            if isinstance(error, BaseException):
                raise error
        return made

    async def _until(self, one: Statement, last: int) -> Any:
        return await self._takes.until(one)

    async def _race(self, one: Statement, last: int) -> Any:
        """The losers go on, or are cancelled."""
        tasks = [asyncio.create_task(self.sequence(body, last)) for body in one["of"]]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = [task in done for task in tasks]
        for task in tasks if one["cancels"] else ():
            task.cancel()
        return [first, [_outcome(made) for made in await asyncio.gather(*tasks, return_exceptions=True)]]

    async def _call(self, one: Statement, last: int) -> Any:
        """A closure, whose result tells what the function's variables were when it ran."""
        self._calls += 1
        calls = self._calls
        given = {"say": one["say"], "given": [last, calls]}
        return await self._ctx.run(lambda: {**given, "now": self._calls - calls}, name=one["name"],
                                   at_most_once=one.get("once"))  # fmt: skip

    async def _together(self, one: Statement, last: int) -> Any:
        """Coroutines, with a variable that they share."""
        shared = list[int]()

        async def leg(body: Sequence[Statement]) -> Any:
            made = await self.sequence(body, last)
            shared.append(digest(made))
            return made

        try:
            if one["do"] == "any":
                made = await self._ctx.first(*[leg(body) for body in one["of"]])
                return [made.winner, made.value, shared]
            every = await self._ctx.map(leg, one["of"], max_concurrency=one["most"], tolerate={"count": one["fails"]})
            return [[_outcome(made) for made in every], shared]
        except OperationFailed as error:
            return ["caught", error.type, shared]

    async def _pool(self, one: Statement, last: int) -> Any:
        """Workers that take statements from a queue."""
        queue: asyncio.Queue[Statement] = asyncio.Queue()
        made: list[Any] = []
        for each in one["of"]:
            queue.put_nowait(each)

        async def worker() -> None:
            while not queue.empty():
                made.append(await self.sequence([queue.get_nowait()], last))

        await asyncio.gather(*[worker() for _ in range(one["workers"])], return_exceptions=True)
        return made

    def _awaitable(self, one: Statement, last: int) -> Awaitable[Any]:
        ctx = self._ctx
        match one["do"]:
            case "step":
                return ctx.step(work, one["say"], last, one.get("fails", 0), name=one["name"],
                                retry=retry_of(one), at_most_once=one.get("once"))  # fmt: skip
            case "sleep":
                return ctx.sleep(one["seconds"])
            case "event":
                return ctx.event(one["name"], key=one["key"], match=one.get("match"), timeout=one["seconds"])
            case "approval":
                return ctx.approval(timeout=one["seconds"])
            case "child":
                return ctx.child(one["workflow"], one["given"], timeout=one["seconds"])
            case "detached":
                return ctx.child(one["workflow"], one["given"], detached=True)
            case "map":
                return ctx.map(work, one["items"], max_concurrency=one["most"], name=one["name"])
            case "all":
                return ctx.all(*self._members(one, last))
            case "first":
                return ctx.first(*self._members(one, last))
        raise AssertionError(one)

    def _members(self, one: Statement, last: int) -> list[Awaitable[Any]]:
        return [self._awaitable(each, last) for each in one["of"]]


def _outcome(made: Any) -> Any:
    return ["raised", getattr(made, "type", type(made).__name__)] if isinstance(made, BaseException) else made


def shown(one: Statement, value: Any) -> Any:
    """What a program makes of what it awaited."""
    match one["do"]:
        case "approval":
            return [value["decision"], value["by"]]
        case "all":
            return [shown(each, part) for each, part in zip(one["of"], value, strict=True)]
        case "first":
            return [value.winner, shown(one["of"][value.winner], value.value)]
    return value


class InTurn:
    """Users' code in the simulator's own thread."""

    def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
        try:
            return function(), None
        except Exception as error:
            return None, error


class Code:
    """What is deployed: a function for each workflow, of the current version, or a module that cannot be imported."""

    def __init__(self, names: Sequence[str]) -> None:
        self.version, self.is_broken = 1, False
        self._functions = {name: workflow(name, lambda: self.version) for name in names}

    def function(self, run: str) -> Callable[..., object]:
        if self.is_broken:
            raise ImportError("a module that was deployed in pieces")
        return self._functions[run.rpartition(".")[2]]


class Workers:
    """Processes, each with the sessions that it keeps."""

    def __init__(self, code: Code, kept: Sequence[int]) -> None:
        self.code, self._kept = code, kept
        self._sessions: list[Sessions] = []

    def of(self, worker: int, logbook: Logbook) -> Sessions:
        """Those of this worker's process."""
        if not self._sessions:
            self._sessions = [Sessions(logbook, self.code, kept=kept, threads=InTurn()) for kept in self._kept]
        return self._sessions[worker % len(self._sessions)]

    def reload(self, worker: int | None = None) -> None:
        """A process begins anew; None: all of them, because code was deployed."""
        for number, sessions in enumerate(self._sessions):
            if worker is None or number == worker % len(self._sessions):
                sessions.close()

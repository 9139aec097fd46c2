"""`ctx` as type checkers see it: the arguments of steps, workflows and callables, and the types of what is awaited.

A call with options has its other arguments by position: no type can tell a keyword of the step from an option.
"""

from asyncio import Task
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from datetime import datetime, timedelta
from types import UnionType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from stepwell.definition.authoring import Duration, Retry
from stepwell.runtime.durable.context import Context
from stepwell.runtime.durable.held import Limit
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.steps.context import StepContext

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

class RunOptions(TypedDict, total=False):
    name: str | None
    retry: Retry | Mapping[str, Any] | None
    timeout: Duration | None
    at_most_once: bool | None

class StepOptions(RunOptions, total=False):
    pool: str | None
    throttle: str | Mapping[str, Any] | Limit | None

class Tolerate(TypedDict, total=False):
    count: int
    percent: float

class AllOptions(TypedDict, total=False):
    name: str
    max_concurrency: int

class MapOptions(StepOptions, total=False):
    max_concurrency: int

class EventOptions(TypedDict, total=False):
    key: str | int | None
    match: str | None
    timeout: Duration | timedelta | None

class Timer(Operation[None]): ...

class Callback(Operation[T]):
    @property
    def url(self) -> str: ...

class Child(Operation[T]): ...

class ChildHandle(Task[T]):
    def send(self, name: str, payload: Any = None) -> Operation[str]:
        """Sends an event to the child run alone."""

class Handler(Generic[P, T]):
    def __call__(self, *args: P.args, **named: P.kwargs) -> T: ...
    def validator(self, function: Callable[P, object]) -> Callable[P, object]:
        """Has the function look at each update before: what it raises refuses that. It changes nothing."""

class First(tuple[*Ts], Generic[*Ts]):
    winner: int
    value: Any

class WorkflowContext(Context):
    """One run of a durable function, seen from inside."""

    @overload
    def step(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **named: P.kwargs) -> Operation[T]:
        """Runs a function of a module with these arguments, and gives its result. Raises StepFailed."""
    @overload
    def step(
        self,
        function: Callable[Concatenate[StepContext, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Operation[T]: ...
    @overload
    def step(
        self,
        function: Callable[[*Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> Operation[T]: ...
    @overload
    def step(
        self,
        function: Callable[[StepContext, *Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> Operation[T]: ...
    @overload
    def step(
        self,
        function: Callable[[*Ts, StepContext], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[P, Generator[Any, Any, T]], /, *args: P.args, **named: P.kwargs
    ) -> Operation[T]: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[StepContext, P], Generator[Any, Any, T]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[[*Ts], Generator[Any, Any, T]], /, *args: *Ts, **options: Unpack[StepOptions]
    ) -> Operation[T]: ...
    @overload
    def step(
        self,
        function: Callable[[StepContext, *Ts], Generator[Any, Any, T]],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[P, AsyncIterator[Any]], /, *args: P.args, **named: P.kwargs
    ) -> Operation[None]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[StepContext, P], AsyncIterator[Any]], /, *args: P.args, **named: P.kwargs
    ) -> Operation[None]: ...
    @overload
    def step(self, function: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[StepContext, P], T], /, *args: P.args, **named: P.kwargs
    ) -> Operation[T]: ...
    @overload
    def step(self, function: Callable[[*Ts], T], /, *args: *Ts, **options: Unpack[StepOptions]) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[[StepContext, *Ts], T], /, *args: *Ts, **options: Unpack[StepOptions]
    ) -> Operation[T]: ...
    @overload
    def step(
        self, function: Callable[[*Ts, StepContext], T], /, *args: *Ts, **options: Unpack[StepOptions]
    ) -> Operation[T]: ...
    @overload
    def run(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **named: P.kwargs) -> Operation[T]:
        """Runs any callable as a step, in the process where the workflow runs: a closure, a method, a lambda."""
    @overload
    def run(
        self,
        function: Callable[[*Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        **options: Unpack[RunOptions],
    ) -> Operation[T]: ...
    @overload
    def run(
        self, function: Callable[P, Generator[Any, Any, T]], /, *args: P.args, **named: P.kwargs
    ) -> Operation[T]: ...
    @overload
    def run(
        self, function: Callable[[*Ts], Generator[Any, Any, T]], /, *args: *Ts, **options: Unpack[RunOptions]
    ) -> Operation[T]: ...
    @overload
    def run(
        self, function: Callable[P, AsyncIterator[Any]], /, *args: P.args, **named: P.kwargs
    ) -> Operation[None]: ...
    @overload
    def run(self, function: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Operation[T]: ...
    @overload
    def run(self, function: Callable[[*Ts], T], /, *args: *Ts, **options: Unpack[RunOptions]) -> Operation[T]: ...
    def sleep(self, duration: Duration | timedelta | datetime) -> Timer: ...
    def timer(self, duration: Duration | timedelta | datetime) -> Timer: ...
    @overload
    def event(self, name: str, *, type: type[T], **options: Unpack[EventOptions]) -> Operation[T]:
        """Waits for an event of this name, and key, and gives its payload. `match`: CEL over `event`."""
    @overload
    def event(self, name: str, *, type: UnionType | None = None, **options: Unpack[EventOptions]) -> Operation[Any]: ...
    @overload
    def callback(
        self,
        *,
        type: type[T],
        name: str = "callback",
        timeout: Duration | timedelta | None = None,
        heartbeat: Duration | None = None,
    ) -> Callback[T]:
        """Waits for what is posted to its own URL: `cb = ctx.callback()`, give `cb.url` away, `await cb`."""
    @overload
    def callback(
        self,
        *,
        type: UnionType | None = None,
        name: str = "callback",
        timeout: Duration | timedelta | None = None,
        heartbeat: Duration | None = None,
    ) -> Callback[Any]: ...
    @overload
    def child(
        self,
        workflow: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Child[T]:
        """Starts a run of another workflow and gives its result. Raises ChildFailed."""
    @overload
    def child(
        self,
        workflow: Callable[[Any, *Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        timeout: Duration | timedelta | None = None,
        detached: Literal[False] = False,
    ) -> Child[T]: ...
    @overload
    def child(
        self,
        workflow: Callable[[Any, *Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        detached: Literal[True],
    ) -> Operation[str]: ...
    @overload
    def child(self, workflow: str, input: Any = None, /, *, detached: Literal[True]) -> Operation[str]: ...
    @overload
    def child(
        self,
        workflow: str,
        input: Any = None,
        /,
        *,
        type: type[T],
        timeout: Duration | timedelta | None = None,
    ) -> Child[T]: ...
    @overload
    def child(
        self, workflow: str, input: Any = None, /, *, timeout: Duration | timedelta | None = None
    ) -> Child[Any]: ...
    @overload
    def start(self, awaited: Child[T], *, name: str | None = None) -> ChildHandle[T]:
        """Begins an operation or a coroutine now, as a task."""
    @overload
    def start(self, awaited: Coroutine[Any, Any, T], *, name: str | None = None) -> Task[T]: ...
    @overload
    def all(
        self, a: Awaitable[A], b: Awaitable[B], /, *, return_exceptions: Literal[False] = False, **o: Unpack[AllOptions]
    ) -> Operation[tuple[A, B]]:
        """All of them at once: operations, or coroutines of operations. The first failure is raised, the others end."""
    @overload
    def all(
        self,
        a: Awaitable[A],
        b: Awaitable[B],
        c: Awaitable[C],
        /,
        *,
        return_exceptions: Literal[False] = False,
        **o: Unpack[AllOptions],
    ) -> Operation[tuple[A, B, C]]: ...
    @overload
    def all(
        self,
        a: Awaitable[A],
        b: Awaitable[B],
        c: Awaitable[C],
        d: Awaitable[D],
        /,
        *,
        return_exceptions: Literal[False] = False,
        **o: Unpack[AllOptions],
    ) -> Operation[tuple[A, B, C, D]]: ...
    @overload
    def all(
        self,
        a: Awaitable[A],
        b: Awaitable[B],
        c: Awaitable[C],
        d: Awaitable[D],
        e: Awaitable[E],
        /,
        *,
        return_exceptions: Literal[False] = False,
        **o: Unpack[AllOptions],
    ) -> Operation[tuple[A, B, C, D, E]]: ...
    @overload
    def all(
        self, *awaited: Awaitable[T], return_exceptions: Literal[False] = False, **o: Unpack[AllOptions]
    ) -> Operation[list[T]]: ...
    @overload
    def all(
        self, *awaited: Awaitable[T], return_exceptions: Literal[True], **o: Unpack[AllOptions]
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def all(
        self,
        *awaited: Awaitable[T],
        tolerate: Tolerate,
        return_exceptions: bool = False,
        **o: Unpack[AllOptions],
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def first(self, a: Awaitable[A], /, *timers: Timer, name: str = "") -> Operation[First[A | None]]:
        """The first of them to end; the others are cancelled. A tuple of a value for each that is no timer."""
    @overload
    def first(
        self, a: Awaitable[A], b: Awaitable[B], /, *timers: Timer, name: str = ""
    ) -> Operation[First[A | None, B | None]]: ...
    @overload
    def first(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /, *timers: Timer, name: str = ""
    ) -> Operation[First[A | None, B | None, C | None]]: ...
    @overload
    def first(self, *awaited: Awaitable[T], name: str = "") -> Operation[First[*tuple[T | None, ...]]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        return_exceptions: Literal[False] = False,
        tolerate: None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T]]:
        """A step, or a coroutine function, for each item, at most so many at once; their results in order."""
    @overload
    def map(
        self,
        function: Callable[[StepContext, A], Coroutine[Any, Any, T]]
        | Callable[[A, StepContext], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        return_exceptions: Literal[False] = False,
        tolerate: None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], T],
        items: Iterable[A],
        *,
        return_exceptions: Literal[False] = False,
        tolerate: None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T]]: ...
    @overload
    def map(
        self,
        function: Callable[[StepContext, A], T] | Callable[[A, StepContext], T],
        items: Iterable[A],
        *,
        return_exceptions: Literal[False] = False,
        tolerate: None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], Coroutine[Any, Any, T]] | Callable[[StepContext, A], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        return_exceptions: Literal[True],
        tolerate: Tolerate | None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], T] | Callable[[StepContext, A], T],
        items: Iterable[A],
        *,
        return_exceptions: Literal[True],
        tolerate: Tolerate | None = None,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], Coroutine[Any, Any, T]] | Callable[[StepContext, A], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        tolerate: Tolerate,
        return_exceptions: bool = False,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def map(
        self,
        function: Callable[[A], T] | Callable[[StepContext, A], T],
        items: Iterable[A],
        *,
        tolerate: Tolerate,
        return_exceptions: bool = False,
        **options: Unpack[MapOptions],
    ) -> Operation[list[T | BaseException]]: ...
    @overload
    def query(self, name: str) -> Callable[[Callable[[], T]], Callable[[], T]]:
        """Says what answers a query of this name, over a function without parameters."""
    @overload
    def query(self, name: str, function: Callable[[], T]) -> Callable[[], T]: ...
    @overload
    def update(self, name: str) -> Callable[[Callable[P, T]], Handler[P, T]]:
        """Says what an update of this name does, over a function, plain or `async`."""
    @overload
    def update(self, name: str, function: Callable[P, T]) -> Handler[P, T]: ...
    @overload
    def continue_as(
        self,
        function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """To be returned: the run begins anew with these arguments, its state kept."""
    @overload
    def continue_as(self, function: Callable[[Any, *Ts], Coroutine[Any, Any, T]], /, *args: *Ts) -> T: ...

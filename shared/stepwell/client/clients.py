"""Client and AsyncClient: start runs of workflows, and do with a run what the HTTP API allows.

    with Client() as client:                                # STEPWELL_URL, or this machine
        run = client.start(checkout, order, id="order-17")  # a function, or a workflow's name
        receipt = run.result()                              # of the type that checkout returns

Both are thin: they send what `exchange` says, and wait when it says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, overload

import httpx
from typing_extensions import Unpack

from stepwell.client import calls, flows
from stepwell.client.access import Access, Kind, Token, access_to
from stepwell.client.calls import StartOptions
from stepwell.client.errors import JsonObject
from stepwell.client.exchange import Answer, Api, Pause
from stepwell.client.requests import Flow, Page, Request
from stepwell.client.surface import Awaiting, Blocking, ClientCalls, RunCalls
from stepwell.client.typed import Reader, reader_of, start_of
from stepwell.errors import UserError
from stepwell.limits import PAGE_ITEMS, PAGE_ITEMS_MAX
from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.runtime.durable.typed import WorkflowContext

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RETRIES = 3
_logger = logging.getLogger("stepwell.client")


def _log_warnings(view: JsonObject) -> None:
    for sentence in view.get("warnings", ()):
        _logger.warning("%s", sentence)


def api_at(
    url: str,
    token: Token = "",
    api_key: str = "",
    region: str = "",
    auth: httpx.Auth | None = None,
    retries: int = RETRIES,
) -> Api:
    """The API of the arguments, else of the environment, else of this machine."""
    settings = read_settings()
    place = url or settings.url
    if auth is not None:
        return Api(place, Access(Kind.SIGNED, auth), retries)
    if not (token or api_key or region):
        token, api_key = settings.token, settings.api_key
    return Api(place, access_to(place, token=token, api_key=api_key, region=region), retries)


def _check_open(is_closed: bool) -> None:
    """Raises UserError for a client that is closed."""
    if is_closed:
        raise UserError("the client is closed", code="client_closed", hint="make a new one, or close it later")


class Client(ClientCalls, Blocking):
    """The API at a URL. It keeps its connections: use one for long, in a `with` statement or with `close`.

    `token` (a JWT, or a function that gives one), `api_key`, or `region` for a signature (SigV4) with the credentials
    of boto3, or an `auth` of httpx; without them the environment's STEPWELL_TOKEN or STEPWELL_API_KEY, else a signature
    for the URL of an API Gateway. `retries`: how often a call is sent again where that is safe.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: Token = "",
        api_key: str = "",
        region: str = "",
        auth: httpx.Auth | None = None,
        retries: int = RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._api = api_at(url, token, api_key, region, auth, retries)
        self._http = httpx.Client(**self._api.options, transport=transport)

    @property
    def url(self) -> str:
        return self._api.url

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    @overload
    def start(
        self,
        workflow: Callable[[WorkflowContext, *Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        **options: Unpack[StartOptions],
    ) -> Handle[R]: ...
    @overload
    def start(self, workflow: str, given: Any = ..., /, **options: Unpack[StartOptions]) -> Handle[Any]: ...
    def start(  # type: ignore[misc]  # mypy takes *Any for less than *Ts
        self, workflow: Any, /, *args: Any, **options: Any
    ) -> Handle[Any]:
        """Starts a run of a function, with its arguments, or of the workflow of a name, with its input.

        It starts one run, however often it is sent: by its `id`, its `key`, or a new key.
        """
        name, given, read = start_of(workflow, args, options)
        view, is_new = self.send(calls.start(name, given, **options))
        _log_warnings(view)
        return Handle(self, str(view["run_id"]), read, is_new)

    @overload
    def handle(self, run_id: str, workflow: Callable[..., Coroutine[Any, Any, R]]) -> Handle[R]: ...
    @overload
    def handle(self, run_id: str, workflow: str = ...) -> Handle[Any]: ...
    def handle(self, run_id: str, workflow: Any = "") -> Handle[Any]:
        """Returns a handle of a run that exists, without a call. `workflow`: for the type of its result."""
        return Handle(self, run_id, reader_of(workflow))

    def send(self, asked: Request[T] | Flow[T]) -> T:
        """Makes a call of `stepwell.client.calls` or `run_calls`. Raises ApiProblem, Unreachable."""
        steps, answer = self._api.steps(asked), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._take(step)

    def _take(self, step: Request[Any] | Pause) -> Answer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        _check_open(self._http.is_closed)
        try:
            return self._http.request(**self._api.arguments(step))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error

    def sent(self, build: Callable[..., Request[T] | Flow[T]], *args: Any, **named: Any) -> T:
        return self.send(build(*args, **named))

    def listed(self, build: Callable[..., Request[Page]], *args: Any, **named: Any) -> Listing:
        return Listing(self, build(*args, **named))


class Handle(RunCalls, Blocking, Generic[R]):
    """A run. `is_new`: false if the start found an earlier run of the same key or id, or became part of one."""

    def __init__(self, client: Client, run_id: str, read: Reader, is_new: bool = True) -> None:
        self.client, self.id, self.is_new, self._read = client, run_id, is_new, read

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    def result(self, timeout: float | None = None) -> R:
        """Waits for the result. Raises RunFailed, or TimeoutError after `timeout` seconds."""
        found: R = self._read(self.client.send(flows.result(self.id, timeout)))
        return found

    def sent(self, build: Callable[..., Request[T] | Flow[T]], *args: Any, **named: Any) -> T:
        return self.client.send(build(self.id, *args, **named))

    def listed(self, build: Callable[..., Request[Page]], *args: Any, **named: Any) -> Listing:
        return self.client.listed(build, self.id, *args, **named)


class Listing:
    """A list of the API: iterate over it, or take one page."""

    def __init__(self, client: Client, request: Request[Page]) -> None:
        self._client, self._request = client, request

    def __iter__(self) -> Iterator[JsonObject]:
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(PAGE_ITEMS_MAX, cursor)
            yield from page.items
            cursor = page.next_cursor

    def page(self, limit: int = PAGE_ITEMS, cursor: str = "") -> Page:
        """Reads one page; `next_cursor` of the page before goes on from it."""
        return self._client.send(calls.at(self._request, limit, cursor))


class AsyncClient(ClientCalls, Awaiting):
    """The same as Client, for asyncio: what returns a value there is awaited here.

    It may be used in several event loops, one after the other or in threads: each has its own connections, because a
    connection works only in the loop that opened it.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: Token = "",
        api_key: str = "",
        region: str = "",
        auth: httpx.Auth | None = None,
        retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._api = api_at(url, token, api_key, region, auth, retries)
        self._made = partial(httpx.AsyncClient, **self._api.options, transport=transport)
        self._unused = [self._made()]  # for the first loop
        self._of_loop: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._is_closed = False

    @property
    def url(self) -> str:
        return self._api.url

    def _here(self) -> httpx.AsyncClient:
        """Returns what holds the connections of the running loop; forgets those of loops that are closed."""
        loop = asyncio.get_running_loop()
        found = self._of_loop.get(loop)
        if found is None:
            for ended in [one for one in [*self._of_loop] if one.is_closed()]:
                self._of_loop.pop(ended, None)
            try:
                found = self._unused.pop()
            except IndexError:
                found = self._made()
            self._of_loop[loop] = found
        return found

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of this loop, and takes no more calls."""
        self._is_closed = True
        await self._here().aclose()

    @overload
    async def start(
        self,
        workflow: Callable[[WorkflowContext, *Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        **options: Unpack[StartOptions],
    ) -> AsyncHandle[R]: ...
    @overload
    async def start(self, workflow: str, given: Any = ..., /, **options: Unpack[StartOptions]) -> AsyncHandle[Any]: ...
    async def start(  # type: ignore[misc]  # as above
        self, workflow: Any, /, *args: Any, **options: Any
    ) -> AsyncHandle[Any]:
        """Starts a run, as `Client.start` does."""
        name, given, read = start_of(workflow, args, options)
        view, is_new = await self.send(calls.start(name, given, **options))
        _log_warnings(view)
        return AsyncHandle(self, str(view["run_id"]), read, is_new)

    @overload
    def handle(self, run_id: str, workflow: Callable[..., Coroutine[Any, Any, R]]) -> AsyncHandle[R]: ...
    @overload
    def handle(self, run_id: str, workflow: str = ...) -> AsyncHandle[Any]: ...
    def handle(self, run_id: str, workflow: Any = "") -> AsyncHandle[Any]:
        """Returns a handle of a run that exists, as `Client.handle` does."""
        return AsyncHandle(self, run_id, reader_of(workflow))

    async def send(self, asked: Request[T] | Flow[T]) -> T:
        """Makes a call of `stepwell.client.calls` or `run_calls`. Raises ApiProblem, Unreachable."""
        steps, answer = self._api.steps(asked), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._take(step)

    async def _take(self, step: Request[Any] | Pause) -> Answer | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        _check_open(self._is_closed)
        try:
            return await self._here().request(**self._api.arguments(step))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error

    async def sent(self, build: Callable[..., Request[T] | Flow[T]], *args: Any, **named: Any) -> T:
        return await self.send(build(*args, **named))

    def listed(self, build: Callable[..., Request[Page]], *args: Any, **named: Any) -> AsyncListing:
        return AsyncListing(self, build(*args, **named))


class AsyncHandle(RunCalls, Awaiting, Generic[R]):
    """A run. `is_new`: false if the start found an earlier run of the same key or id, or became part of one."""

    def __init__(self, client: AsyncClient, run_id: str, read: Reader, is_new: bool = True) -> None:
        self.client, self.id, self.is_new, self._read = client, run_id, is_new, read

    def __repr__(self) -> str:
        return f"<AsyncHandle {self.id}>"

    async def result(self, timeout: float | None = None) -> R:
        """Waits for the result. Raises RunFailed, or TimeoutError after `timeout` seconds."""
        found: R = self._read(await self.client.send(flows.result(self.id, timeout)))
        return found

    async def sent(self, build: Callable[..., Request[T] | Flow[T]], *args: Any, **named: Any) -> T:
        return await self.client.send(build(self.id, *args, **named))

    def listed(self, build: Callable[..., Request[Page]], *args: Any, **named: Any) -> AsyncListing:
        return self.client.listed(build, self.id, *args, **named)


class AsyncListing:
    """A list of the API: iterate over it with `async for`, or take one page."""

    def __init__(self, client: AsyncClient, request: Request[Page]) -> None:
        self._client, self._request = client, request

    async def __aiter__(self) -> AsyncIterator[JsonObject]:
        cursor: str | None = ""
        while cursor is not None:
            page = await self.page(PAGE_ITEMS_MAX, cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor

    async def page(self, limit: int = PAGE_ITEMS, cursor: str = "") -> Page:
        """Reads one page; `next_cursor` of the page before goes on from it."""
        return await self._client.send(calls.at(self._request, limit, cursor))

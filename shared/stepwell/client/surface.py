"""The methods that both clients have, each written once: those of `calls` on a client, of `run_calls` on a run.

On a Client a method returns its value, on an AsyncClient a coroutine of it; the types say so.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from stepwell.client import calls, flows, run_calls
from stepwell.client.requests import Flow, Page, Request

if TYPE_CHECKING:
    from stepwell.client.clients import AsyncListing, Listing

P = ParamSpec("P")
T = TypeVar("T")
S_co = TypeVar("S_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)


class Bound:
    """What has methods: a client or a handle."""

    def sent(self, build: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Makes a call."""
        raise NotImplementedError

    def listed(self, build: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Makes an iterator over a list."""
        raise NotImplementedError


class Blocking(Bound):
    """Its methods return values."""


class Awaiting(Bound):
    """Its methods return coroutines."""


class Method(Generic[P, S_co, A_co]):
    """A method with these parameters, which returns S_co where it blocks and A_co where it is awaited."""

    def __init__(self, build: Callable[..., Any], act: str) -> None:
        self._build, self._act = build, act
        update_wrapper(self, build)  # type: ignore[arg-type]  # for help()

    @overload
    def __get__(self, owner: Blocking, kind: Any = None) -> Callable[P, S_co]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: Any = None) -> Callable[P, A_co]: ...
    @overload
    def __get__(self, owner: None, kind: Any = None) -> Method[P, S_co, A_co]: ...
    def __get__(self, owner: Bound | None, kind: Any = None) -> Any:
        return self if owner is None else partial(getattr(owner, self._act), self._build)


def _call(build: Callable[P, Request[T] | Flow[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    return Method(build, "sent")


def _list(build: Callable[P, Request[Page]]) -> Method[P, Listing, AsyncListing]:
    return Method(build, "listed")


def _run_call(build: Callable[Concatenate[str, P], Request[T] | Flow[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    return Method(build, "sent")


def _run_list(build: Callable[Concatenate[str, P], Request[Page]]) -> Method[P, Listing, AsyncListing]:
    return Method(build, "listed")


class ClientCalls(Bound):
    """The calls that concern no single run."""

    runs = _list(calls.runs)
    failures = _list(calls.failures)
    batch = _call(calls.batch)
    pause_workflow = _call(calls.pause_workflow)
    unpause_workflow = _call(calls.unpause_workflow)
    deliveries = _list(calls.deliveries)
    recover = _call(calls.recover)
    dead_letters = _call(calls.dead_letters)
    dead_letter = _call(calls.dead_letter)
    redrive_dead_letters = _call(calls.redrive_dead_letters)
    delete_dead_letters = _call(calls.delete_dead_letters)
    workflows = _call(calls.workflows)
    workflow = _call(calls.workflow)
    versions = _call(calls.versions)
    alias = _call(calls.alias)
    delete_alias = _call(calls.delete_alias)
    send_event = _call(calls.send_event)
    stats = _call(calls.stats)
    health = _call(calls.health)
    limits = _call(calls.limits)
    limit = _call(calls.limit)
    schedules = _call(calls.schedules)
    create_schedule = _call(calls.create_schedule)
    pause_schedule = _call(calls.pause_schedule)
    unpause_schedule = _call(calls.unpause_schedule)
    fire_schedule = _call(calls.fire_schedule)
    delete_schedule = _call(calls.delete_schedule)
    replay_delivery = _call(calls.replay_delivery)
    deliver = _call(calls.deliver)
    whole = _call(flows.whole)


class RunCalls(Bound):
    """The calls on one run."""

    view = _run_call(run_calls.view)
    status = _run_call(run_calls.status)
    explain = _run_call(run_calls.explain)
    graph = _run_call(run_calls.graph)
    query = _run_call(flows.query)
    value = _run_call(flows.value)
    update = _run_call(flows.update)
    send_update = _run_call(run_calls.send_update)
    signal = _run_call(run_calls.signal)
    approve = _run_call(run_calls.approve)
    reject = _run_call(run_calls.reject)
    delegate = _run_call(run_calls.delegate)
    cancel = _run_call(run_calls.cancel)
    terminate = _run_call(run_calls.terminate)
    delete = _run_call(run_calls.delete)
    pause = _run_call(run_calls.pause)
    unpause = _run_call(run_calls.unpause)
    redrive = _run_call(run_calls.redrive)
    redrive_foretold = _run_call(run_calls.redrive_foretold)
    rerun = _run_call(run_calls.rerun)
    fork = _run_call(run_calls.fork)
    foretell = _run_call(run_calls.foretell)
    begin = _run_call(run_calls.begin)
    history = _run_list(run_calls.history)
    output = _run_call(run_calls.output)
    logs = _run_list(run_calls.logs)
    export = _run_list(run_calls.export)
    branches = _run_list(run_calls.branches)

"""The ports of a world: they stop before and after each call, where the scheduler takes over."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepwell.errors import PortError
from stepwell.runtime.log.retries import again
from stepwell.runtime.ports import Lane
from tests.sim.actors import Actor, Envelope, stop
from tests.sim.backlog_laws import watch_send
from tests.sim.backlog_programs import delivered_ms, is_lost
from tests.sim.batch_laws import watch_call
from tests.sim.called_programs import overtake, stall
from tests.sim.code_laws import watch_code
from tests.sim.count_laws import count_wake
from tests.sim.gather_laws import watch_starts
from tests.sim.noting import looks, note, took
from tests.sim.snags import hold_up
from tests.sim.tempting import hurry, tempt

if TYPE_CHECKING:
    from tests.sim.world import World


async def before(what: str) -> None:
    """The stop before a call to a port, which may fail there."""
    if await stop(what):
        raise PortError(f"{what} did not answer")


async def after(what: str) -> None:
    """The stop after a call, which has happened even if whoever made it is told of an error."""
    if await stop(f"{what} done"):
        raise PortError(f"{what} happened, and nobody was told")


class StoppingPort:
    """Any port, with a stop before and after each call."""

    def __init__(self, world: World, inner: Any) -> None:
        self._world, self._inner = world, inner

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._inner, name)
        world = self._world

        async def call(*args: Any, **named: Any) -> Any:
            if args == ("pause",) and not world.pauses_workflows:  # what is kept for seconds in a worker: no stop
                return await method(*args, **named)
            kind = "consume" if named.get("consumes") else name
            what = f"{kind}{_short(args)}" if world.tell else kind
            watch_call(world, kind)
            tempt(world, kind, args)
            hurry(world, kind, args)
            overtake(world, kind, args)
            stall(world)
            hold_up(world, kind, args[0] if args else "")
            await before(what)
            looks(world, name)
            if kind == "consume":
                world.pending = {topic: dict(events) for topic, events in world.memory._pending.items()}
            made = await method(*args, **named)
            if kind == "consume" and made is None:
                took(world, *args[:3], *named["consumes"])
            note(world, kind, args, made)
            if kind == "append" and made is None:
                watch_code(world, args)
                watch_starts(world, args)
            await after(what)
            return made

        self.__dict__[name] = call
        return call


def _short(args: tuple[Any, ...]) -> str:
    return f"({', '.join(str(arg)[:110] for arg in args)})"


def is_left_to_newer(actor: Actor | None, message: Mapping[str, Any]) -> bool:
    """Tells whether old code sends the message again that it took."""
    if actor is None or not actor.is_old:
        return False
    return message == again({name: value for name, value in actor.envelope.body.items() if name != "yields"})


class StoppingQueue:
    """Queue and Timers: at least once, whenever the scheduler likes."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def send(self, lane: Lane, message: Mapping[str, Any], at_ms: int = 0) -> None:
        world, what = self._world, f"send {lane}"
        watch_call(world, "send")
        hold_up(world, "send")
        await before(what)
        is_left = at_ms > 0 and is_left_to_newer(world.current, message)
        world.has_left |= is_left
        count_wake(world, message)
        if not is_lost(world, lane):
            watch_send(world, message)
            due_ms = at_ms or world.now_ms
            comes_ms = delivered_ms(world, lane, due_ms)
            world.post(Envelope(str(lane), message, comes_ms, is_left=is_left, is_late=comes_ms > due_ms))
        await after(what)

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Any]]) -> None:
        """One by one: whoever dies on the way has sent some."""
        for message in messages:
            await self.send(lane, message)

    async def set(self, name: str, lane: Lane, message: Mapping[str, Any], at_ms: int) -> None:
        world, what = self._world, f"timer {name}"
        watch_call(world, "set")
        await before(what)
        if name not in world.timers:
            world.timers.add(name)
            world.post(Envelope(str(lane), message, at_ms))
        await after(what)


class SkewedClock:
    """Each actor's machine has its own idea of the time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        actor = self._world.current
        return self._world.now_ms + (actor.skew_ms if actor else 0)

    async def sleep_ms(self, duration_ms: int) -> None:
        await stop("sleep")

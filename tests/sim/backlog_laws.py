"""The laws of short invocations and of the sweeper's messages, watched where a step begins and where one is sent.

A step that takes no longer than it may is never begun in an invocation that ends before it. A message that yields, at
its first delivery, begins no step of a run whose worker is alive; nor does the sweeper wake a run amid its first step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepwell.engine.records import ROOT
from tests.sim.leases import Leased

if TYPE_CHECKING:
    from tests.sim.actors import Actor
    from tests.sim.world import World


def note_pick_up(world: World, name: str, args: tuple[Any, ...], made: Any) -> None:
    """Notes who has taken up a run, and which runs were not paused then."""
    if name == "create_run":
        world.taken_up.discard(args[0].run_id)  # of a run that was deleted
    if name == "change_status" and made and args[0].started_ms is not None and world.current:
        run_id = args[0].run_id
        world.takers[run_id] = world.current
        if not world.memory._runs[run_id].paused_ms:
            world.taken_up.add(run_id)


def watch_spare(world: World, call: Any) -> None:
    """A step begins. A redelivery of a message may go on: perhaps it was its own worker that had the run."""
    actor = world.current
    if actor is None or call.token != ROOT or not actor.envelope.body.get("yields"):
        return
    if not Leased(world, actor).is_first():
        return
    taker = _taker(world, call.run_id)
    if taker is not None and taker is not actor:
        _note(
            world,
            f"messages: {call.node} of {call.run_id} began beside {taker.name}, which has the run",
        )


def watch_send(world: World, message: Mapping[str, Any]) -> None:
    """A message is sent: the sweeper sends none that does not yield for a run whose worker is in its first step."""
    actor = world.current
    if actor is None or actor.envelope.body["type"] != "sweep" or message.get("type") != "wake":
        return
    taker = _taker(world, message["run_id"])
    is_of_first = message["slot"] < 0 and message["token"] == ROOT and "yields" not in message
    if is_of_first and taker is not None:
        held_s = (world.now_ms - taker.since_ms) // 1_000
        _note(world, f"messages: the sweeper woke {message['run_id']}, which {taker.name} took up {held_s} s ago")


def watch_time(world: World, call: Any, takes_ms: int) -> None:
    """A step that takes so long begins: its invocation lasts as long, and as long as it is allowed."""
    actor, backlog = world.current, world.main.backlog
    if actor is None or backlog is None:
        return
    left_ms = max(actor.since_ms + backlog.invocation_ms - world.now_ms, 1)
    if max(takes_ms, call.timeout_ms) > left_ms:
        told = f"takes {takes_ms} ms and may take {call.timeout_ms}, and its invocation ends in {left_ms}"
        _note(world, f"budgets: {call.node} attempt {call.attempt} in {call.token} {told}")


def _taker(world: World, run_id: str) -> Actor | None:
    """Who took the run up, and is still at work on it."""
    taker = world.takers.get(run_id)
    return taker if taker in world.actors and not (taker is None or taker.is_zombie) else None


def _note(world: World, broken: str) -> None:
    world.say(f"    ! {broken}")
    world.wrong.append(broken)

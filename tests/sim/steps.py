"""The steps of a world: users' code, which takes its time, keeps sessions, and emits live output."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.errors import PortError
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.outputs import Output
from stepwell.runtime.steps.port import Updated, WriteRecord
from tests.sim.actors import START_MS, Actor, stop
from tests.sim.answered_programs import post_answers
from tests.sim.backlog_laws import watch_spare, watch_time
from tests.sim.backlog_programs import duration_ms
from tests.sim.batch_laws import watch_begin, watch_end
from tests.sim.cost_programs import watch_cost
from tests.sim.fn_code import CANNOT_IMPORT
from tests.sim.noting import UNDONE, undoes
from tests.sim.repeated_programs import watch_twice
from tests.sim.tempting import repeat

if TYPE_CHECKING:
    from tests.sim.world import World


async def _pass_time(world: World, call: Any, takes_ms: int) -> None:
    """The step's own, in which others of its message may begin."""
    if not takes_ms or world.current is None:
        return
    actor, began_ms = world.current, world.now_ms
    actor.step = call.run_id, call.token
    if call.late is not None and call.late_ms < takes_ms:
        await _sleep_until(world, actor, began_ms + call.late_ms)
        await call.late()
    await _sleep_until(world, actor, began_ms + takes_ms)
    actor.step = "", ""


async def _sleep_until(world: World, actor: Actor, until_ms: int) -> None:
    actor.until_ms = until_ms
    world.busy_until_ms = max(world.busy_until_ms, until_ms)
    await stop(f"step takes time until {(until_ms - START_MS) / 1000:.1f}s")


class Steps:
    """Users' code: what it does is in the program, and who ran it is noted."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _sessions(self, logbook: Logbook) -> Sessions:
        """Of the process of whoever is at work; now and then it has begun anew."""
        world = self._world
        worker = world.current.worker if world.current else 0
        if world.fate.random() < getattr(world.main, "drops", 0):
            world.processes.reload(worker)
        return world.processes.of(worker, logbook)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._sessions(logbook).asked(at)

    async def answered(self, at: Standing, logbook: Logbook, name: str) -> Any:
        return await self._sessions(logbook).answered(at, name)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        return await self._sessions(logbook).updated(at, asked, write)

    async def run_in_session(self, call: Any, at: Standing, logbook: Logbook) -> Outcome | None:
        world = self._world
        worker = world.current.worker if world.current else 0

        async def attempted(function: Callable[[], object]) -> Outcome:
            """What the function says, between two stops, in which its session must not change."""
            outcome = await self.run(replace(call, input={}))
            return replace(outcome, value=copy_context().run(function)) if outcome.failure is None else outcome

        return await world.processes.of(worker, logbook).ran(at, call.node, attempted)

    def policy(self, step: Any) -> Any:
        policy = self._world.program.policy(step)  # no program has one of its own
        return replace(policy, stuck=CANNOT_IMPORT) if self._world.processes.code.is_broken else policy

    async def run(self, call: Any) -> Outcome:
        world = self._world
        repeat(world)
        await stop(f"step {call.node} attempt {call.attempt}")
        actor = world.current
        program = world.programs[call.workflow]
        if world.processes.code.is_broken:
            return Outcome(failure=CANNOT_IMPORT, is_stuck=True)
        if not undoes(call):
            world.seen_of[call.run_id].given.setdefault((call.key, call.attempt), []).append(call.input)
            watch_begin(world, call)
            watch_twice(world, call)
            watch_spare(world, call)
            watch_cost(world, call)
            post_answers(world, call)
        if actor:
            actor.is_behind = False
        watch_time(world, call, took_ms := duration_ms(world, call))
        await _pass_time(world, call, took_ms)
        watch_end(world, call, took_ms)
        outcome = program.outcome(call, world.now_ms, world.seen)
        await self._emit(call, actor.worker if actor else 0)
        if actor and not (actor.is_behind and call.late is not None):
            actor.ran.setdefault(UNDONE if undoes(call) else call.token, []).append(call)
            actor.undid = (call, outcome.failure is None and outcome.pause is None) if undoes(call) else None
        await stop(f"step {call.node} done")
        return outcome

    async def _emit(self, call: Any, worker: int) -> None:
        """Live output; what cannot be written is dropped."""
        outputs = self._world.outputs[worker]
        output = Output(outputs, call.run_id, call.token, call)
        for number in range(self._world.main.emits):
            piece = output.piece({"piece": [call.key, number]})
            with suppress(PortError):
                await outputs.put(call.run_id, piece)
                self._world.seen_of[call.run_id].emitted.append(piece)

"""Law 13: no branch waits for another's step but by the bound of its fork, so as many are under way as it allows.

Looked at while time stands still: nothing is due, and whoever is at work is in a step that takes time. Then, of the
branches that are left, as many as the bound allows, or all, are each in a step, at a wait or a fork of its own, or have
a message for later. Alone those of a message that has only just come may still wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stepwell.engine.records import Fork
from stepwell.limits import FORK_SHARED_MS
from stepwell.runtime.log.messages import Wake, from_json
from tests.sim.actors import Envelope
from tests.sim.fork_laws import is_held
from tests.sim.tree import Logs, Opened, forks_of
from tests.sim.world import World


def law_13_overlap(world: World) -> Iterator[str]:
    """Of one run, while it is not paused."""
    header = world.memory._runs.get(world.run_id)
    if header is not None and header.paused_ms:
        return
    logs = world.logs.look()
    busy = {token for actor in world.actors for run_id, token in [actor.step] if run_id == world.run_id}
    for opened in [opened for token, log in logs.records.items() for opened in forks_of(token, log)]:
        if _is_opened_later(world, opened) or any(_is_told_later(world, logs, branch) for branch in opened.branches):
            continue
        first = 0
        for group in opened.fork.groups if opened.closed_by is None else ():
            indexes = range(first, first + group.count)
            left = [opened.branches[index] for index in indexes if _is_left(world, logs, opened, index)]
            idle = [branch for branch in left if branch not in busy and not _rests(world, logs, branch)]
            allowed = min(group.max_concurrency or len(left), len(left))
            if len(left) - len(idle) < allowed:
                others = f"{_others(world, opened)}: {len(left) - len(idle)} of {allowed} are under way"
                yield f"law 13: {idle[0]} waits for no branch of its own fork, but for {others}"
            first += group.count


def _is_left(world: World, logs: Logs, opened: Opened, index: int) -> bool:
    """Whether a branch has not ended, and is to begin as soon as there is room. A branch of a DAG may need others."""
    graph, token = world.program.graph, logs.tokens.get(opened.branches[index])
    return (token is None or not token.ended) and not (graph.dependencies and is_held(graph, opened, logs, index))


def _rests(world: World, logs: Logs, branch: str) -> bool:
    """Whether it has ended, stands at a wait or at a fork, has a message for later, or shares one that just came."""
    token = logs.tokens.get(branch)
    if token is not None and token.last is not None:
        is_parked = token.parked is not None and token.resumption is None
        if token.ended or is_parked or isinstance(token.last.next, Fork):
            return True
    coming = [envelope for envelope in world.envelopes if envelope.at_ms > world.now_ms]
    sharing = [actor.envelope for actor in world.actors if world.now_ms < actor.since_ms + FORK_SHARED_MS]
    return _is_for(world, logs, branch, [*coming, *sharing])


def _is_opened_later(world: World, opened: Opened) -> bool:
    """Whether the message that lets its branches begin waits in the queue: who wrote the fork has died."""
    wake = Wake(world.run_id, opened.slot, opened.parent)
    coming = [one for one in world.envelopes if one.kind != "client" and one.at_ms > world.now_ms]
    return any({wake.id, replace(wake, late=True).id} & _names(one) for one in coming)


def _is_told_later(world: World, logs: Logs, branch: str) -> bool:
    """Whether it has ended, and the message that lets others begin waits in the queue: its worker has died."""
    token = logs.tokens.get(branch)
    coming = [envelope for envelope in world.envelopes if envelope.at_ms > world.now_ms]
    return token is not None and token.ended and _is_for(world, logs, branch, coming)


def _is_for(world: World, logs: Logs, branch: str, envelopes: Iterable[Envelope]) -> bool:
    """Whether one of these messages moves the branch."""
    token = logs.tokens.get(branch)
    wake = Wake(world.run_id, token.slot if token else -1, branch)
    ids = {wake.id, replace(wake, late=True).id, *([token.last.by] if token and token.last else ())}
    return any(ids & _names(envelope) for envelope in envelopes if envelope.kind != "client")


def _names(envelope: Envelope) -> set[str]:
    """The ids of a message, and of the wakes that it holds."""
    message = from_json(envelope.body)
    if not isinstance(message, Wake):
        return {message.id}
    return {message.id, *(replace(message, token=token, count=1).id for token in message.tokens)}


def _others(world: World, opened: Opened) -> str:
    """Whose steps run meanwhile."""
    running = {actor.step[1] for actor in world.actors} & set(opened.branches)
    return f"the steps of {', '.join(sorted(running))}" if running else "nobody"

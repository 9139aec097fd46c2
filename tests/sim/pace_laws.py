"""The laws of turns under a rate limit: no turn is two claimants', and one that nobody needs comes back.

A turn to come is a claimant's, by its note; or free, by the limit's note; or in the hands of an actor that is about to
write one of these. Such a turn passes unused if that actor dies. Else it comes to somebody.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepwell.engine.limits.throttles import wants
from stepwell.engine.records import ROOT
from stepwell.limits import TURN_GRACE_MS

if TYPE_CHECKING:
    from stepwell.definition.graph import RateLimit
    from tests.sim.actors import Actor
    from tests.sim.world import World

_PACE, _DUE, _TURN = "pace:", "due", "t#"


def note_turns(world: World, name: str, args: tuple[Any, ...], made: Any) -> None:
    """A note was written or deleted: what its actor has in hand since, and whether a turn is two claimants' now."""
    if name not in {"put_note", "drop_note"} or not args[0].startswith(_PACE) or world.current is None:
        return
    kind, place = args[:2]
    if not made:
        return
    if place == _DUE:
        if name == "put_note":
            _changed(world, world.current, kind, *args[2:4])
    else:
        turns = world.turns[kind]
        before_ms = turns.pop(place, 0)
        if name == "put_note":
            turns[place] = int(args[2])
            world.current.turns[kind, turns[place]] -= 1
        else:
            world.current.turns[kind, before_ms] += 1
    for at_ms, count in _had(world, kind).items():
        if count > 1 and at_ms > _soon_ms(world):
            world.wrong.append(f"turns: that at {at_ms} of {kind} is {count} claimants', or free as well")


def _changed(world: World, actor: Actor, kind: str, body: str, old: str | None) -> None:
    """The limit's note was written: a turn was taken, a new one or one that was free; or one is free now."""
    after, before = json.loads(body), json.loads(old or "{}")
    were, are = _free(before), _free(after)
    for at_ms in were - are:
        actor.turns[kind, at_ms] += 1
    for at_ms in are - were:
        actor.turns[kind, at_ms] -= 1
    if after["due_ms"] != before.get("due_ms"):
        actor.turns[kind, _up(after["due_ms"] - _limit(world, kind).burst * after["interval_ms"])] += 1


def lost_turns(world: World, actor: Actor) -> Iterator[str]:
    """What is broken as an actor is done: a turn that it took from somebody, or for somebody, is nobody's."""
    for (kind, at_ms), count in actor.turns.items():
        is_late = at_ms > _soon_ms(world) + TURN_GRACE_MS  # one that comes sooner may have been used
        if count > 0 and is_late and not _is_removed(world, kind) and at_ms not in _had(world, kind):
            yield f"turns: {actor.name} leaves that at {at_ms} of {kind} to nobody"


def _had(world: World, kind: str) -> Counter[int]:
    """The turns of a limit that are somebody's, or free."""
    notes = world.memory._notes[kind]
    claims = ((place.removeprefix(_TURN), body) for place, body in notes.items() if place.startswith(_TURN))
    held = Counter(int(body) for who, body in claims if not _is_over(world, who))
    return held + _free(json.loads(notes.get(_DUE, "{}")))


def _is_over(world: World, who: str) -> bool:
    """Whether the claimant has ended, so that whoever has stored its turn is about to look, and gives it back."""
    run_id, _, step = who.partition("|")
    if run_id not in world.memory._runs:
        return True  # the run was deleted
    token_id, _, slot = step.partition("|")
    token = world.of(run_id).logs.look().tokens.get(token_id or ROOT)
    return token is not None and (token.ended or (bool(step) and not wants(token, int(slot))))


def _free(note: dict[str, Any]) -> Counter[int]:
    interval_ms = note.get("interval_ms", 0)
    return Counter(
        _up(at_ms + number * interval_ms) for at_ms, count in note.get("free", ()) for number in range(count)
    )


def _soon_ms(world: World) -> int:
    """Whatever comes later has come by nobody's clock."""
    return world.now_ms + world.chances.skew_ms


def _is_removed(world: World, kind: str) -> bool:
    """Whether a deploy left out the named limit: its turns are worth nothing."""
    name = kind.removeprefix(_PACE).partition("/")[0]
    return name.startswith("@") and name[1:] not in world.catalogs[0].limits


def _limit(world: World, kind: str) -> RateLimit:
    name = kind.removeprefix(_PACE).partition("/")[0]
    limit = world.main.limits[name[1:]].rate if name.startswith("@") else world.programs[name].graph.rate_limit
    assert limit is not None, f"{name} has no rate"
    return limit


def _up(number: float) -> int:
    return -int(-number // 1)

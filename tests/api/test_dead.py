"""GET /dlq and what follows: messages that nobody could take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.api.routes import create_app
from stepwell.runtime.calls.dead import Letter
from tests.api.kit import World

LETTER = Letter("m1", "Resume", {"type": "deadline", "run_id": "r1", "v": 2}, 1_700_000_000_000, 6)


class Dead:
    """One dead letter, until it is sent back."""

    def __init__(self) -> None:
        self.kept = {LETTER.id: LETTER}

    async def letters(self, limit: int) -> Sequence[Letter]:
        return [*self.kept.values()][:limit]

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        return [name for name in [*self.kept] if (ids is None or name in ids) and self.kept.pop(name)]


def world_with_one() -> World:
    world = World()
    world.app = create_app(replace(world.parts, dead=Dead()))
    return world


def test_dead_letters_are_listed_shown_and_sent_back() -> None:
    world = world_with_one()
    (one,) = world.get("/dlq").json["items"]
    assert (one["id"], one["run_id"], one["type"]) == ("m1", "r1", "deadline")
    assert world.get("/dlq/m1").json["message"]["run_id"] == "r1"
    assert world.get("/dlq/m2").status == 404
    assert world.post("/dlq:redrive", {}).status == 422
    assert world.post("/dlq:redrive", {"all": True, "ids": ["m1"]}).status == 422
    assert world.post("/dlq:redrive", {"ids": ["m1", "m2"]}).json == {"sent": ["m1"], "left": ["m2"]}
    assert world.get("/dlq").json["items"] == []
    assert world.post("/dlq:redrive", {"all": True}).json == {"sent": [], "left": []}

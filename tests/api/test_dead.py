"""GET /dlq and what follows: messages that nobody could take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.api.routes import create_app
from stepwell.runtime.calls.dead import Letter
from tests.api.kit import World

LETTER = Letter("m1", "Resume", {"type": "deadline", "run_id": "r1", "v": 2}, 1_700_000_000_000, 6)
UNREADABLE = Letter("m9", "Resume", None, 1_700_000_000_000, 6)


class Dead:
    """Dead letters, until they are sent back; one that cannot be read stays."""

    def __init__(self, *letters: Letter) -> None:
        self.kept = {one.id: one for one in letters}

    async def letters(self, limit: int) -> Sequence[Letter]:
        return [*self.kept.values()][:limit]

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        found = [name for name, one in self.kept.items() if one.body and (ids is None or name in ids)]
        return [name for name in found if self.kept.pop(name)]

    async def delete(self, ids: frozenset[str]) -> Sequence[str]:
        return [name for name in sorted(ids & self.kept.keys()) if self.kept.pop(name)]


def world_with(*letters: Letter) -> World:
    world = World()
    world.app = create_app(replace(world.parts, dead=Dead(*letters)))
    return world


def test_dead_letters_are_listed_shown_and_sent_back() -> None:
    world = world_with(LETTER)
    (one,) = world.get("/dlq").json["items"]
    assert (one["id"], one["run_id"], one["type"]) == ("m1", "r1", "deadline")
    assert world.get("/dlq/m1").json["message"]["run_id"] == "r1"
    assert world.get("/dlq/m2").status == 404
    assert world.post("/dlq:redrive", {}).status == 422
    assert world.post("/dlq:redrive", {"all": True, "ids": ["m1"]}).status == 422
    assert world.post("/dlq:redrive", {"ids": ["m1", "m2"]}).json == {"sent": ["m1"], "left": ["m2"]}
    assert world.get("/dlq").json["items"] == []
    assert world.post("/dlq:redrive", {"all": True}).json == {"sent": [], "left": []}


def test_of_all_dead_letters_those_that_cannot_be_read_are_left() -> None:
    """They are named, or else a call that sent nothing back would look like one that did its work."""
    world = world_with(LETTER, UNREADABLE)
    assert world.post("/dlq:redrive", {"all": True}).json == {"sent": ["m1"], "left": ["m9"]}
    assert "stays until its queue drops it" in world.get("/dlq").json["items"][0]["why"]


def test_dead_letters_are_deleted_by_id_and_all_that_cannot_be_read() -> None:
    """One of a newer version is not among them: that version can read it."""
    newer = replace(LETTER, id="m2", body={"type": "deadline", "run_id": "r1", "v": 99})
    world = world_with(LETTER, UNREADABLE, newer)
    assert world.post("/dlq:delete", {}).status == 422
    assert world.post("/dlq:delete", {"ids": ["m1"], "unreadable": True}).status == 422
    assert world.post("/dlq:delete", {"unreadable": True}).json == {"deleted": ["m9"], "left": []}
    assert world.post("/dlq:delete", {"unreadable": True}).json == {"deleted": [], "left": []}
    assert world.post("/dlq:delete", {"ids": ["m1", "m9"]}).json == {"deleted": ["m1"], "left": ["m9"]}
    assert [one["id"] for one in world.get("/dlq").json["items"]] == ["m2"]
    assert "of a newer version" in world.get("/dlq").json["items"][0]["why"]

"""POST /recover: wakes what stands still, a page to a call."""

from __future__ import annotations

from tests.api.kit import World


def test_recover_counts_what_it_looked_at() -> None:
    world = World()
    world.start("paid", input={"order": "1"})
    world.drain()
    told = world.post("/recover", {}).json
    assert told == {"looked": 0, "woken": {}, "first": [], "rearmed": 0, "next_cursor": None}
    told = world.post("/recover", {"all": True}).json
    assert (told["looked"], told["rearmed"], told["next_cursor"]) == (1, 1, None)
    assert world.post("/recover", {"all": "yes"}).status == 422
    assert world.post("/recover", {"cursor": "made up"}).json["code"] == "bad_cursor"

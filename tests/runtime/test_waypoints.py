"""A long history is read page by page without folding the log from its start again for each page."""

from __future__ import annotations

import pytest

from stepwell.engine import fold as folding
from stepwell.engine.records import Record
from stepwell.engine.token import Token
from stepwell.runtime.calls import narration
from stepwell.runtime.log.waypoints import STRIDE
from tests.api.kit import World

LOOP = """
workflow: loop
nodes:
  work: {run: python:shop.charge, timeout: 1m, max_visits: 1000, transitions: [{to: work, max: 600}, {to: done}]}
  done: {}
"""


def test_each_page_of_a_history_folds_a_stride_at_most_before_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages together hold each entry once."""
    world, folded = World(LOOP), [0]

    def counted(token: Token, record: Record) -> Token:
        folded[0] += 1
        return folding.apply(token, record)

    run_id = world.start("loop")
    monkeypatch.setattr(narration, "apply", counted)
    after, ids, records = "", list[str](), 0
    while True:
        folded[0] = 0
        page = world.get(f"/runs/{run_id}/history", limit=100, after=after).json
        fresh = {entry["id"].partition(".")[0] for entry in page["items"]}
        assert folded[0] <= STRIDE + len(fresh) + 1
        ids += [entry["id"] for entry in page["items"]]
        records += folded[0]
        if not (after := page["next_cursor"]):
            break
    assert len(ids) == len(set(ids)) > 1_200
    assert records > 600

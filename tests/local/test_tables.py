"""The user's own tables on this machine: in the commit of the record, read by steps, and told like any change."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stepwell.local.tables import open_table
from stepwell.local.wiring import DATABASE_FILE, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Notice
from stepwell.runtime.starts.starting import Start

SHOP = """
from stepwell import Put, workflow
from stepwell.local.tables import open_table

def look(data: str):
    return [int(item["id"]) for item in open_table(data, "orders").items()]

@workflow
async def buy(ctx, data: str):
    await ctx.transact([Put("orders", {"id": 1}, {"of": ctx.run_id})])
    return await ctx.step(look, data)
"""


class Listening:
    """In the place of the webhooks out."""

    wanted = True

    def __init__(self) -> None:
        self.heard: list[Notice] = []

    def post(self, notices: list[Notice]) -> None:
        self.heard += notices


def test_a_transaction_is_in_the_data_folder_with_its_record(tmp_path: Path) -> None:
    folder, data = tmp_path / "workflows", tmp_path / "data"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    local, listening = open_local(data, folder, load_folder(folder).graphs), Listening()
    closing = local.parts.ports.log.outgoing  # type: ignore[attr-defined]  # it is a TellingStore
    local.parts.ports.log.outgoing = listening  # type: ignore[attr-defined]  # the same
    run_id = run_now(local.parts.service.start(Start("buy", {"data": str(data)}))).header.run_id
    while (one := local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), 60_000)) is not None:
        run_now(dispatch(local.parts, one.lane, one.message, Unlimited(one.deliveries)))
        local.inbox.delete(one)
    token = run_now(local.parts.service.standing(run_id)).token
    assert token.result == [1]
    assert open_table(data, "orders").get({"id": 1.0}) == {"id": 1, "of": run_id}
    assert [notice.entry.type for notice in listening.heard if notice.entry.step == "transact"] != []
    with sqlite3.connect(data / DATABASE_FILE) as connection:
        assert connection.execute("SELECT table_name FROM user_items").fetchall() == [("orders",)]
    connection.close()
    closing.close()
    local.close()

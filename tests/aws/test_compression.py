"""Texts over a kilobyte are compressed where that takes fewer write units, and are read whether or not."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepwell.aws.failures import NoAnswer
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.definition.graph import Json
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header
from tests.aws.meter import units_of
from tests.contract.emulated import NO_WAIT, Cloud, items_of, table_of

ROWS = json.dumps([{"id": f"order-{number}", "state": "shipped", "amount": number * 7} for number in range(190)])
PROSE = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")[:10_000]
NOISE = base64.b85encode(random.Random(1).randbytes(3_000)).decode()


def stored(body: str, compresses: bool = True) -> Mapping[str, Any]:
    """The item of a record with this body, which is read back first, by a table of either kind."""
    with table_of(Cloud("thin"), compresses=compresses) as table:
        run_now(DynamoStore(table).append("run", "0", 0, body))
        for reader in (True, False):
            other = Table(table.name, table._client, MemoryBlobs(), retry=NO_WAIT, compresses=reader)
            assert [one.body for one in run_now(DynamoStore(other).load("run", "0")).records] == [body]
        return items_of(table.name)[0]


@pytest.mark.parametrize(("body", "plain", "compressed"), [(ROWS, 11, 3), (PROSE, 11, 5)], ids=["rows", "prose"])
def test_a_result_of_ten_kilobytes_takes_fewer_write_units(body: str, plain: int, compressed: int) -> None:
    assert 9_900 < len(body) < 11_100
    assert units_of(dict(stored(body, compresses=False))) == plain
    assert units_of(dict(stored(body))) <= compressed


@pytest.mark.parametrize("body", ["x" * 700, NOISE], ids=["short", "noise"])
def test_a_text_that_would_not_take_fewer_units_is_stored_as_it_is(body: str) -> None:
    assert stored(body)["body"] == {"S": body}


def test_a_text_is_measured_in_bytes_and_not_in_characters() -> None:
    assert "body_zip" in stored("é" * 600)


def test_the_page_on_cost_says_what_a_large_result_costs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cost.md").read_text(encoding="utf-8")
    assert "takes 5 units and not 11" in page.replace("\n", " ")


def test_a_compressed_input_is_not_rewritten_with_its_header_either() -> None:
    """It is an item of its own where the header would be larger than one write unit with it."""
    with table_of(Cloud("thin"), compresses=True) as table:
        store = DynamoStore(table)
        header = Header("run", "flow", "v1", {"rows": PROSE}, 1)
        assert run_now(store.create_run(header)) is None
        kept = {item["sk"]["S"]: item for item in items_of(table.name) if item["pk"]["S"] == "RUN#run"}
        assert units_of(kept.pop("RUN")) == 1
        (apart,) = kept.values()
        assert "input_zip" in apart
        assert run_now(store.get_run("run")) == header


def test_a_change_from_the_stream_has_its_bytes_as_base64() -> None:
    with table_of(Cloud("thin"), compresses=True) as table:
        store = DynamoStore(table)
        run_now(store.append("run", "0", 0, ROWS))
        item = dict(items_of(table.name)[0])
        told = {**item, "body_zip": {"B": base64.b64encode(_bytes_of(item["body_zip"]["B"])).decode()}}
        assert run_now(store.body_of(told)) == ROWS


def test_who_lost_the_answer_to_a_compressed_write_knows_that_it_was_made() -> None:
    with table_of(Cloud("thin"), compresses=True) as table:
        client = LosesOneAnswer(table._client())
        unsure = DynamoStore(Table(table.name, lambda: client, MemoryBlobs(), retry=NO_WAIT, compresses=True))
        assert run_now(unsure.append("run", "0", 0, ROWS)) is None
        assert run_now(unsure.append("run", "0", 0, ROWS.replace("shipped", "lost"))) is not None


class LosesOneAnswer:
    """A client whose first put is made, and whose answer never comes."""

    def __init__(self, client: Any) -> None:
        self._client, self._is_lost = client, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_item(self, **request: Json) -> Json:
        answer: Json = self._client.put_item(**request)
        if not self._is_lost:
            self._is_lost = True
            raise NoAnswer("no answer")
        return answer


def _bytes_of(value: Any) -> bytes:
    return base64.b64decode(value) if isinstance(value, str) else bytes(value)

"""What the emulator's process changes in ministack, so that long runs can be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from ministack.services import dynamodb

from stepwell.aws.emulation.server import keep_expressions
from tests.contract.emulated import Cloud, table_of

ITEMS = 50
KEY, BETWEEN = "pk = :pk AND sk BETWEEN :low AND :high", {":pk": "one", ":low": "10", ":high": "19"}


def test_a_condition_is_parsed_once_however_many_items_a_partition_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item is still compared with it."""
    parsed = Counter[str]()

    def counted(name: str, parse: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            parsed[name] += 1
            return parse(*given)

        return call

    for name in ("_tokenize", "_condition_syntax_error"):
        monkeypatch.setattr(dynamodb, name, counted(name, getattr(dynamodb, name)))
    keep_expressions()
    cloud = Cloud()
    with table_of(cloud) as table:
        client = cloud.connect("dynamodb")
        for number in range(ITEMS):
            client.put_item(TableName=table.name, Item={"pk": {"S": "one"}, "sk": {"S": f"{number:02d}"}})
        values = {name: {"S": value} for name, value in BETWEEN.items()}
        found = client.query(TableName=table.name, KeyConditionExpression=KEY, ExpressionAttributeValues=values)
    assert [item["sk"]["S"] for item in found["Items"]] == [str(number) for number in range(10, 20)]
    assert set(parsed) == {"_tokenize", "_condition_syntax_error"}
    assert max(parsed.values()) <= 2

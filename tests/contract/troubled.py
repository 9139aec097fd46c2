"""DynamoDB on a bad day: what it may do at any time, done all the time.

    first try       a write conflicts with another transaction, a read is throttled
    second try      done, and the answer is lost on the way
    third try       answered: a page holds two items, a batch leaves half of it undone

A store must answer on such a day as on any other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from stepwell.aws.store.store import DynamoStore
from tests.contract.emulated import Cloud, answer, table_of

PAGE_ITEMS = 2
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"})
_BATCHES = {"BatchGetItem": "UnprocessedKeys", "BatchWriteItem": "UnprocessedItems"}


class BadDay:
    """Spoils the calls of a Cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._tries: dict[str, int] = defaultdict(int)
        self._left: dict[str, Any] = {}
        cloud.before, cloud.after = self.before, self.after

    def before(self, operation: str, request: Any) -> AWSResponse | None:
        """Refuses the first try; of the others it asks for little."""
        self._tries[operation] += 1
        if self._tries[operation] == 1:
            return _refusal(operation)
        if operation == "Query":
            _narrow(request)
        elif operation in _BATCHES:
            self._left = _halve(request)
        return None

    def after(self, operation: str, response: AWSResponse) -> AWSResponse | None:
        """Loses the answer of the second try, if it says that something was done."""
        tries = self._tries[operation]
        if tries == 2 and response.status_code == 200:
            raise ReadTimeoutError(endpoint_url="http://emulated")
        if tries > 1:
            self._tries[operation] = 0
        if operation not in _BATCHES or not self._left or response.status_code != 200:
            return None
        body = json.loads(response.content)
        left, self._left = self._left, {}
        headers = {name: value for name, value in response.headers.items() if name.lower() != "x-amz-crc32"}
        return answer(200, json.dumps({**body, _BATCHES[operation]: left}), headers)


def _refusal(operation: str) -> AWSResponse:
    code = "TransactionConflictException" if operation in WRITES else "ThrottlingException"
    body: dict[str, Any] = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "a bad day"}
    if operation == "TransactWriteItems":
        body["__type"] = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
        body["CancellationReasons"] = [{"Code": "None"}, {"Code": "TransactionConflict"}]
    return answer(400, json.dumps(body), {"Content-Type": "application/x-amz-json-1.0"})


def _narrow(request: Any) -> None:
    asked = json.loads(request.body)
    asked["Limit"] = min(asked.get("Limit", PAGE_ITEMS), PAGE_ITEMS)
    request.body = json.dumps(asked).encode()


def _halve(request: Any) -> dict[str, Any]:
    """Cuts a batch in half, its first half staying in the request. Returns what was cut off."""
    asked = json.loads(request.body)
    left: dict[str, Any] = {}
    for table, part in asked["RequestItems"].items():
        entries = part["Keys"] if isinstance(part, dict) else part
        kept, cut = entries[: -(-len(entries) // 2)], entries[-(-len(entries) // 2) :]
        asked["RequestItems"][table] = {**part, "Keys": kept} if isinstance(part, dict) else kept
        if cut:
            left[table] = {**part, "Keys": cut} if isinstance(part, dict) else cut
    request.body = json.dumps(asked).encode()
    return left


@contextmanager
def troubled_store(_: Any = None, client: str = "") -> Iterator[DynamoStore]:
    cloud = Cloud(client)
    with table_of(cloud) as table:
        BadDay(cloud)
        yield DynamoStore(table)

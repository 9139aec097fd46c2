"""The few methods of boto3's clients that the adapters call. Tests hand in anything of this shape.

boto3 is untyped, and its stubs weigh more than these lines; a request is checked by botocore's own models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

Answer: TypeAlias = Mapping[str, Any]
Item: TypeAlias = dict[str, dict[str, Any]]  # as the wire has it: {"name": {"S": "text"}}


class DynamoClient(Protocol):
    def get_item(self, **request: Any) -> Answer: ...

    def put_item(self, **request: Any) -> Answer: ...

    def update_item(self, **request: Any) -> Answer: ...

    def delete_item(self, **request: Any) -> Answer: ...

    def query(self, **request: Any) -> Answer: ...

    def batch_get_item(self, **request: Any) -> Answer: ...

    def batch_write_item(self, **request: Any) -> Answer: ...

    def transact_write_items(self, **request: Any) -> Answer: ...


class SqsClient(Protocol):
    def send_message(self, **request: Any) -> Answer: ...


class SchedulerClient(Protocol):
    def create_schedule(self, **request: Any) -> Answer: ...


class S3Client(Protocol):
    def put_object(self, **request: Any) -> Answer: ...

    def get_object(self, **request: Any) -> Answer: ...

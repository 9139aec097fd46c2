"""A Lambda function of your own that starts a refund for each message of a queue.

It needs STEPWELL_URL and, with the default `auth`, a role with `execute-api:Invoke`: `engine.grant_start(function)`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from refunds import Claim, refund

from stepwell import Client


@cache
def stepwell() -> Client:
    """The client, made at the first call and kept for the next ones."""
    return Client()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Starts the runs; a message that fails comes again alone."""
    failed = []
    for record in event["Records"]:
        try:
            claim = Claim.model_validate_json(record["body"])
            stepwell().start(refund, claim, key=record["messageId"])  # SQS may deliver a message twice
        except Exception as error:
            print(f"message {record['messageId']} failed: {error}")
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}

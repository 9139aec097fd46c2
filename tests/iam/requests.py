"""What a call of a client needs, by the services' authorization references; and who made which calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.iam.policies import Need
from tests.iam.template import ACCOUNT, QUEUES_URL, REGION, SCHEDULE

Params = Mapping[str, Any]

# Every part of a multipart upload is a put.
_S3 = {
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
}
_OF_ITEM = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


def needs_of(service: str, operation: str, params: Params) -> Iterator[Need]:
    """`service` is IAM's prefix. Raises ValueError for a call that is not known here."""
    if service not in _NEEDS:
        raise ValueError(f"not known: {service}:{operation}")
    yield from _NEEDS[service](operation, params)


def _dynamodb(operation: str, params: Params) -> Iterator[Need]:
    match operation:
        case "TransactWriteItems":  # no action of its own: each item needs its own
            for item in params["TransactItems"]:
                for kind, request in item.items():
                    yield Need(f"dynamodb:{_OF_ITEM[kind]}", _table(request["TableName"]))
        case "BatchGetItem" | "BatchWriteItem":
            yield from (Need(f"dynamodb:{operation}", _table(name)) for name in params["RequestItems"])
        case "Query" if "IndexName" in params:
            yield Need("dynamodb:Query", f"{_table(params['TableName'])}/index/{params['IndexName']}")
        case "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem" | "Query" | "Scan":
            yield Need(f"dynamodb:{operation}", _table(params["TableName"]))
        case _:
            raise ValueError(f"not known: dynamodb:{operation}")


def _sqs(operation: str, params: Params) -> Iterator[Need]:
    if operation not in {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
    }:
        raise ValueError(f"not known: sqs:{operation}")
    yield Need(f"sqs:{operation.removesuffix('Batch')}", _arn("sqs", params["QueueUrl"].removeprefix(QUEUES_URL)))


def _s3(operation: str, params: Params) -> Iterator[Need]:
    bucket = f"arn:aws:s3:::{params.get('Bucket')}"
    if operation == "ListObjectsV2":
        yield Need("s3:ListBucket", bucket, frozenset({("s3:prefix", params["Prefix"])}))
        return
    if operation == "DeleteObjects":
        yield from (Need("s3:DeleteObject", f"{bucket}/{one['Key']}") for one in params["Delete"]["Objects"])
        return
    if operation == "DeleteObject":
        yield Need("s3:DeleteObject", f"{bucket}/{params['Key']}")
        return
    if operation not in _S3:
        raise ValueError(f"not known: s3:{operation}")
    yield Need(_S3[operation], f"{bucket}/{params['Key']}")


def _scheduler(operation: str, params: Params) -> Iterator[Need]:
    if operation not in {"CreateSchedule", "DeleteSchedule"}:
        raise ValueError(f"not known: scheduler:{operation}")
    yield Need(f"scheduler:{operation}", _arn("scheduler", f"schedule/{params['GroupName']}/{params['Name']}"))
    if operation == "DeleteSchedule":
        return
    passed = frozenset({("iam:passedtoservice", "scheduler.amazonaws.com")})
    yield Need("iam:PassRole", params["Target"]["RoleArn"], passed)


def _events(operation: str, params: Params) -> Iterator[Need]:
    if operation != "PutEvents":
        raise ValueError(f"not known: events:{operation}")
    for name in {entry["EventBusName"] for entry in params["Entries"]}:
        yield Need("events:PutEvents", _arn("events", f"event-bus/{name}"))


def _secretsmanager(operation: str, params: Params) -> Iterator[Need]:
    if operation != "GetSecretValue":
        raise ValueError(f"not known: secretsmanager:{operation}")
    name = params["SecretId"]
    yield Need(
        "secretsmanager:GetSecretValue",
        name if name.startswith("arn:") else _arn("secretsmanager", f"secret:{name}-Ab12Cd"),
    )


def _ssm(operation: str, params: Params) -> Iterator[Need]:
    if operation != "GetParameter":
        raise ValueError(f"not known: ssm:{operation}")
    yield Need("ssm:GetParameter", _arn("ssm", f"parameter/{params['Name'].removeprefix('/')}"))


def _lambda(operation: str, params: Params) -> Iterator[Need]:
    if operation != "Invoke":
        raise ValueError(f"not known: lambda:{operation}")
    name = params["FunctionName"]
    yield Need("lambda:InvokeFunction", name if name.startswith("arn:") else _arn("lambda", f"function:{name}"))


def _logs(operation: str, params: Params) -> Iterator[Need]:
    if operation != "FilterLogEvents":
        raise ValueError(f"not known: logs:{operation}")
    yield Need("logs:FilterLogEvents", _arn("logs", f"log-group:{params['logGroupName']}:*"))


_NEEDS: Mapping[str, Callable[[str, Params], Iterator[Need]]] = {
    "dynamodb": _dynamodb,
    "events": _events,
    "lambda": _lambda,
    "logs": _logs,
    "s3": _s3,
    "scheduler": _scheduler,
    "secretsmanager": _secretsmanager,
    "sqs": _sqs,
    "ssm": _ssm,
}


def _table(name: str) -> str:
    return _arn("dynamodb", f"table/{name}")


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


class Recorder:
    """Hears what its clients are asked for while somebody acts."""

    def __init__(self) -> None:
        self.needs: set[tuple[str, Need]] = set()
        self.live_api = ""  # the WebSocket API, which no request names: it is a part of the client's address
        self._actor = ""

    def listen(self, client: Any) -> None:
        """From now on. `before-parameter-build` comes once for each call, with what was asked for in Python's terms."""
        client.meta.events.register("before-parameter-build", self._hear)

    def hear(self, service: str, operation: str, params: Params) -> None:
        """A call of the thin client."""
        if not self._actor:
            return  # the test's own
        self.needs |= {(self._actor, need) for need in needs_of(service, operation, params)}

    @contextmanager
    def acting(self, actor: str) -> Iterator[None]:
        """What is called meanwhile, in whatever thread, the actor calls."""
        self._actor, before = actor, self._actor
        try:
            yield
        finally:
            self._actor = before

    def _hear(self, params: Params, model: Any, **_: Any) -> None:
        if self._actor and model.name == "PostToConnection":
            sent = f"{self.live_api}/live/POST/@connections/{params['ConnectionId']}"
            self.needs.add((self._actor, Need("execute-api:ManageConnections", _arn("execute-api", sent))))
            return
        self.hear(model.service_model.signing_name, model.name, params)
        if self._actor and model.name == "CreateSchedule":  # it will fire: the Scheduler sends in the role it was given
            self.needs.add((SCHEDULE, Need("sqs:SendMessage", params["Target"]["Arn"])))

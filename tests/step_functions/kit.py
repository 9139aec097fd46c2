"""A real boto3 client of Step Functions whose requests an API answers in this process, or a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config

from stepwell.api.resolver import Resolver
from tests.api.kit import World, event

PATH = "/aws/states"
REGION, ACCOUNT = "eu-west-1", "123456789012"
WHERE = f"arn:aws:states:{REGION}:{ACCOUNT}"
ANY_KEY = "any"


def machine_arn(workflow: str) -> str:
    return f"{WHERE}:stateMachine:{workflow}"


def sfn(url: str, key: str = ANY_KEY, **config: Any) -> Any:
    """The client, which asks once."""
    config = {"retries": {"total_max_attempts": 1}, "inject_host_prefix": False, **config}
    if config["inject_host_prefix"] is None:  # as the environment has it
        del config["inject_host_prefix"]
    return boto3.client(
        "stepfunctions",
        endpoint_url=f"{url}{PATH}",
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key="none",
        config=Config(**config),
    )


def sfn_of(app: Resolver, settle: Callable[[], object] = lambda: None, **config: Any) -> Any:
    """The client of this API. `settle` works off what a call has begun, before its answer comes."""
    client = sfn("https://api.example.com", **config)

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        asked = event_of(request)
        reply = app.resolve(asked)
        assert_fits(asked["headers"]["x-amz-target"], reply)
        settle()
        return Sent(request.url, reply)

    client.meta.events.register("before-send.sfn", answer)
    return client


def event_of(request: AWSPreparedRequest) -> dict[str, Any]:
    """The event of a client's request."""
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    return event("POST", PATH, _bytes(request.body), headers=headers)


class Sent(AWSResponse):  # type: ignore[misc]  # botocore has no types
    """An answer as the network would bring it."""

    def __init__(self, url: str, reply: Mapping[str, Any]) -> None:
        super().__init__(url, reply["statusCode"], reply["headers"], None)
        self._content = reply["body"].encode()


# -- the shapes of botocore

# Required by the model: Stepwell knows of no such thing, and of the parameters of no task without an input.
UNKNOWN = frozenset({"creationDate", "roleArn", "parameters"})
GOES_ON = [  # what a sync execution answers that takes longer than a call may
    "/stopDate is missing",
    "/status is 'RUNNING', and none of ['SUCCEEDED', 'FAILED', 'TIMED_OUT']",
]


def assert_fits(target: str, reply: Mapping[str, Any]) -> None:
    """An answer has the members that botocore's model of the service has, and each is of its type."""
    body, headers = json.loads(reply["body"]), reply["headers"]
    assert headers["Content-Type"] == "application/x-amz-json-1.0"
    if reply["statusCode"] != 200:
        assert set(body) == {"__type", "message"}
        assert headers["x-amzn-ErrorType"] == body["__type"]
        return
    misfits = [*_misfits(MODEL.operation_model(target.partition(".")[2]).output_shape, body, "")]
    assert misfits in ([], GOES_ON), misfits


def _misfits(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        yield from (f"{path}/{name} is not of the model" for name in value if name not in shape.members)
        yield from (f"{path}/{name} is missing" for name in shape.required_members if name not in {*value, *UNKNOWN})
        for name, one in value.items():
            if name in shape.members:
                yield from _misfits(shape.members[name], one, f"{path}/{name}")
    elif shape.type_name == "list":
        for one in value:
            yield from _misfits(shape.member, one, f"{path}/*")
    elif not isinstance(value, _TYPES[shape.type_name]):
        yield f"{path} is {value!r}, and no {shape.type_name}"
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{path} is {value!r}, and none of {shape.enum}"


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "integer": int, "long": int, "timestamp": (int, float),
}  # fmt: skip
MODEL = sfn("https://api.example.com").meta.service_model


def written(world: World) -> str:
    """All that is stored, but for what an empty place of the store in memory becomes by being read."""
    return world.stored().replace("'alias:nothing': {}", "").replace("'alias:stepwell': {}", "")


def call_of(target: str, body: bytes | str, **headers: str) -> dict[str, Any]:
    """The event of a call that no client would send."""
    asked = event("POST", PATH, body, headers={"content-type": "application/x-amz-json-1.0", **headers})
    return {**asked, "headers": {**asked["headers"], "x-amz-target": target}}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(body: str | bytes | None) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""

"""The keys that the OpenAPI document describes are those that the API takes."""

from __future__ import annotations

import json

import fastjsonschema
import pytest

from tests.api.kit import World
from tests.docs.generate import openapi_text


@pytest.mark.parametrize("key", ["", "A-1", "Müller & Söhne", "日本", 7, "\0", "a\nb", "k" * 513])
def test_the_openapi_document_describes_the_keys_that_an_event_may_have(world: World, key: object) -> None:
    """What a client checks against the document is what the API takes."""
    body = {"name": "paid", "key": key}
    components = json.loads(openapi_text())["components"]
    check = fastjsonschema.compile({"$ref": "#/components/schemas/EventBody", "components": components})
    if world.post("/events", body).status == 202:
        check(body)
    else:
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check(body)


@pytest.mark.parametrize("key", ["A-1", "a b", "", " ", "é", "k" * 513])
def test_the_openapi_document_describes_the_idempotency_keys_that_a_start_may_have(world: World, key: str) -> None:
    start = json.loads(openapi_text())["paths"]["/workflows/{name}/runs"]["post"]
    (described,) = (one["schema"] for one in start["parameters"] if one["name"] == "Idempotency-Key")
    check = fastjsonschema.compile(described)
    if world.post("/workflows/order/runs", {"input": {}}, {"Idempotency-Key": key}).status == 201:
        check(key)
    else:
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check(key)

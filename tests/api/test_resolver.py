"""The table of routes as a call meets it: which route answers, and what its parameters are."""

from __future__ import annotations

import json

import pytest

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.resolver import Resolver
from tests.api.kit import World, event


def route(method: str, path: str) -> Route:
    async def told(call: Call) -> Answer:
        return Answer(200, {"route": path, **call.path})

    return Route(method, path, told, "", {200: ""})


@pytest.fixture
def app() -> Resolver:
    paths = ("/a/{name}", "/a/fixed", "/a/{name}/b", "/a/fixed/{other}", "/{one}/{two}/c")
    return Resolver(World().parts, [route("GET", path) for path in paths] + [route("POST", "/a/fixed")])


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/a/fixed", {"route": "/a/fixed"}),
        ("/a/x%2Fy%20z", {"route": "/a/{name}", "name": "x/y z"}),
        ("/a/{name}", {"route": "/a/{name}", "name": "{name}"}),
        ("/a/fixed/b", {"route": "/a/{name}/b", "name": "fixed"}),
        ("/a/fixed/d", {"route": "/a/fixed/{other}", "other": "d"}),
        ("/x/y/c", {"route": "/{one}/{two}/c", "one": "x", "two": "y"}),
    ],
)
def test_a_path_that_is_written_out_goes_before_parameters_and_else_the_order_decides(
    app: Resolver, path: str, answer: dict[str, str]
) -> None:
    assert json.loads(app.resolve(event("GET", path))["body"]) == answer


def test_a_method_finds_the_route_that_has_it_also_behind_one_that_has_not(app: Resolver) -> None:
    assert json.loads(app.resolve(event("POST", "/a/fixed"))["body"]) == {"route": "/a/fixed"}
    assert app.resolve(event("POST", "/a/x"))["statusCode"] == 405


def test_a_parameter_is_never_empty(app: Resolver) -> None:
    assert app.resolve(event("GET", "/a/"))["statusCode"] == 404

"""Tasks `http:invoke` of state machines: what is sent, what comes back, and errors by their names in Step Functions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell.definition.targets import parse_hosts
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.testing.backend import in_memory
from stepwell.testing.kit import Run, Stepwell
from tests.machines.conftest import Machine, machine, task
from tests.runtime.http_kit import Server, as_json, reply

INVOKE = "arn:aws:states:::http:invoke"


def invoked(folder: Path, server: Server, catches: str = "", **parameters: Any) -> Run:
    """A run of a machine with one such task, which may call the server and no other host."""
    at = f"http://localhost:{server.port}"
    given = {"ApiEndpoint": f"{at}/orders", "Method": "GET", **parameters}
    states = {"A": task(INVOKE, Parameters=given), "Caught": {"Type": "Pass", "End": True}}
    if catches:
        states["A"]["Catch"] = [{"ErrorEquals": [catches], "Next": "Caught"}]
    else:
        del states["Caught"]
    (folder / "m.asl.json").write_text(json.dumps(machine(**states)))
    kit = Stepwell(folder, replace(in_memory(), calls=Calls(HttpSteps(parse_hosts([at])))))
    run = kit.start("m", {"id": "o1"})
    kit.settle()
    return run


def test_a_request_is_made_of_the_parameters_and_the_answer_told(tmp_path: Path) -> None:
    with Server(as_json('{"paid": true}', "201 Created")) as server:
        run = invoked(tmp_path, server, Method="POST", QueryParameters={"a": "1 2", "b": [3, "x"]},
                      Headers={"X-Shop": "till"}, RequestBody={"order.$": "$.id"})  # fmt: skip
    head, _, body = server.asked[0].decode().partition("\r\n\r\n")
    assert head.splitlines()[0] == "POST /orders?a=1+2&b=3&b=x HTTP/1.1"
    assert {"X-Shop: till", "Content-Type: application/json"} <= {*head.splitlines()}
    assert json.loads(body) == {"order": "o1"}
    headers = {"content-type": ["application/json"], "content-length": ["14"]}
    told = {"StatusCode": 201, "StatusText": "Created", "Headers": headers, "ResponseBody": {"paid": True}}
    assert run.result == told


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("INDICES", "a%5B0%5D=1&a%5B1%5D=2&b%5Bc%5D=x"),
        ("REPEAT", "a=1&a=2&b%5Bc%5D=x"),
        ("COMMAS", "a=1%2C2&b%5Bc%5D=x"),
        ("BRACKETS", "a%5B%5D=1&a%5B%5D=2&b%5Bc%5D=x"),
    ],
)
def test_a_body_is_sent_as_a_form_where_transform_says_so(tmp_path: Path, form: str, sent: str) -> None:
    transform = {"RequestBodyEncoding": "URL_ENCODED", "RequestEncodingOptions": {"ArrayFormat": form}}
    with Server(reply(body="ok", content_type="text/plain")) as server:
        run = invoked(tmp_path, server, Method="POST", RequestBody={"a": [1, 2], "b": {"c": "x"}}, Transform=transform)
    assert server.asked[0].decode().partition("\r\n\r\n")[2] == sent
    assert b"Content-Type: application/x-www-form-urlencoded" in server.asked[0]
    assert run.result["ResponseBody"] == "ok"


@pytest.mark.parametrize("catches", ["States.Http.StatusCode.404", "States.TaskFailed"])
def test_a_status_that_is_no_success_is_an_error_of_its_name(tmp_path: Path, catches: str) -> None:
    with Server(reply("404 Not Found", "gone")) as server:
        run = invoked(tmp_path, server, catches)
    assert (run.status, run.result["Error"]) == ("completed", "States.Http.StatusCode.404")


def test_a_connection_that_breaks_is_an_error_of_the_socket(tmp_path: Path) -> None:
    with Server(b"") as server:
        run = invoked(tmp_path, server, "States.Http.Socket")
    assert (run.status, run.result["Error"]) == ("completed", "States.Http.Socket")


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"Method": "BREW"}, "bad_parameters"),
        ({"Headers": {"Host": "elsewhere"}}, "bad_header"),
        ({"Headers": {"X": "a\r\nY: b"}}, "bad_header"),
        ({"ApiEndpoint.$": "States.Format('https://{}.example.com/', $.id)", "ApiEndpoint": None}, "http_host"),
        ({"Method": "POST", "RequestBody": [1], "Transform": {"RequestBodyEncoding": "URL_ENCODED"}}, "bad_parameters"),
    ],
)
def test_what_cannot_be_sent_is_not_sent(tmp_path: Path, parameters: Machine, error: str) -> None:
    with Server(reply()) as server:
        if parameters.get("ApiEndpoint", "") is None:
            run = _computed(tmp_path, parameters["ApiEndpoint.$"])
        else:
            run = invoked(tmp_path, server, **parameters)
    assert run.error is not None
    assert (run.error["type"], server.asked) == (error, [])


def _computed(folder: Path, endpoint: str) -> Run:
    given = {"ApiEndpoint.$": endpoint, "Method": "GET"}
    (folder / "m.asl.json").write_text(json.dumps(machine(A=task(INVOKE, Parameters=given))))
    return Stepwell(folder).start("m", {"id": "o1"})

"""A workflow folder packed for a deployed function: the same graphs, without YAML and pydantic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.definition.targets import parse_hosts
from stepwell.errors import DefinitionError, NotFound
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.folder.pack import pack_folder
from stepwell.runtime.folder.unpack import unpack

FLOW = """
workflow: flow
timeline:
  - {name: hold, wait: {for: event, name: paid, timeout: 1h, timeout_actions: [{run: python:m.x, pool: nights}]}}
  - {name: a, run: python:m.a, pool: heavy, compensate: {run: python:m.b, pool: careful}}
  - {name: b, run: python:m.b}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path


def test_what_is_unpacked_is_what_the_folder_holds(folder: Path) -> None:
    packed = json.loads(json.dumps(pack_folder(folder)))
    assert [graph.version for graph in unpack(packed)] == [graph.version for graph in load_folder(folder).graphs]


def test_the_pools_that_the_definitions_name_are_listed(folder: Path) -> None:
    assert pack_folder(folder)["pools"] == ["careful", "default", "heavy", "nights"]


def test_a_folder_with_errors_is_not_packed(folder: Path) -> None:
    (folder / "bad.yaml").write_text("workflow: bad\ntimeline: [{name: a, rum: python:m.a}]")
    with pytest.raises(DefinitionError) as refusal:
        pack_folder(folder)
    assert [problem.code for problem in refusal.value.problems] == ["unknown_key"]


def refused(folder: Path, *hosts: str) -> str:
    """The first problem of a folder that is not packed for these hosts."""
    with pytest.raises(DefinitionError) as refusal:
        pack_folder(folder, parse_hosts(hosts))
    return str(refusal.value.problems[0])


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        pack_folder(tmp_path / "nowhere")


def test_reading_what_was_packed_imports_neither_yaml_nor_pydantic(folder: Path) -> None:
    packed = folder / "out.json"
    packed.write_text(json.dumps(pack_folder(folder)))
    code = (
        "import json, sys; from stepwell.runtime.folder.unpack import unpack; unpack(json.load(open(sys.argv[1])));"
        "print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(packed)], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    assert done.stdout.strip() == "[]"


CALLS = """
workflow: calls
timeline:
  - {name: a, run: "lambda:score:live"}
  - name: b
    run: http:POST https://api.example.com/x
    pool: heavy
    http: {headers: {authorization: {secret: [env:KEY, ssm:/shop/key]}}}
  - {name: c, wait: {for: event, name: paid, timeout: 1h, timeout_actions: [{run: "lambda:remind"}]}}
"""


def test_what_the_steps_of_a_pool_call_is_listed(folder: Path) -> None:
    (folder / "calls.yaml").write_text(CALLS)
    packed = pack_folder(folder)
    assert packed["calls"] == {
        "default": {"lambda": ["remind", "score:live"]},
        "heavy": {"http": ["https://api.example.com"], "secret": ["env:KEY", "ssm:/shop/key"]},
    }


OUT = "out: {crm: {url: https://crm.example.com/hooks, secret: [env:CRM, ssm:/crm], workflows: [flow]}}"


def test_an_endpoint_that_the_deployed_sender_may_not_call_or_cannot_sign_for_is_not_packed(folder: Path) -> None:
    (folder / "webhooks.yaml").write_text(OUT)
    assert "the endpoint crm calls https://crm.example.com" in refused(folder, "api.example.com")
    packed = pack_folder(folder, parse_hosts(["crm.example.com"]))
    assert packed["webhooks"]["out"]["crm"]["workflows"] == ["flow"]
    (folder / "webhooks.yaml").write_text(OUT.replace(", ssm:/crm", ""))
    assert pack_folder(folder)["webhooks"] is not None
    assert "the endpoint crm has no secret that the deployed sender can read" in refused(folder, "crm.example.com")


def test_a_step_that_calls_a_host_that_is_not_allowed_is_not_packed(folder: Path) -> None:
    (folder / "calls.yaml").write_text(CALLS)
    for hosts in ((), ("example.com", "*.example.org")):
        said = refused(folder, *hosts)
        assert "calls: b calls https://api.example.com" in said
        assert "add api.example.com to http_hosts" in said
    assert pack_folder(folder, parse_hosts(["*.example.com"]))["definitions"]


def test_a_host_without_tls_is_not_to_be_added_to_a_list_that_refuses_it(folder: Path) -> None:
    (folder / "calls.yaml").write_text(CALLS.replace("https://api.example.com", "http://127.0.0.1:8000"))
    with pytest.raises(DefinitionError) as refusal:
        pack_folder(folder, parse_hosts([]))
    assert "give its https address: a deployed step calls no other" in str(refusal.value.problems[0])
    assert refusal.value.hint == "stepwell check knows neither your deployment's hosts nor its secrets"


MACHINE = """
StartAt: A
States:
  A: {Type: Task, Resource: "arn:aws:lambda:eu-west-1:123456789012:function:theirs", Next: B}
  B: {Type: Parallel, Branches: [{StartAt: C, States: {C: {Type: Task, Resource: ours, End: true}}}], End: true}
resources: {ours: "lambda:score:live"}
"""


def test_the_functions_that_a_state_machine_calls_are_listed_and_the_machine_is_unpacked(folder: Path) -> None:
    (folder / "m.asl.yaml").write_text(MACHINE)
    packed = json.loads(json.dumps(pack_folder(folder)))
    theirs = "arn:aws:lambda:eu-west-1:123456789012:function:theirs"
    assert packed["calls"] == {"default": {"lambda": [theirs, "score:live"]}}
    assert [graph.name for graph in unpack(packed)] == ["flow", "m"]


TASKS = """
StartAt: Ask
States:
  Ask:
    Type: Task
    Resource: arn:aws:states:::http:invoke
    Parameters: {ApiEndpoint: "https://api.example.com/orders", Method: GET}
    Next: Keep
  Keep: {Type: Task, Resource: "arn:aws:states:::dynamodb:putItem", Parameters: {TableName: t, Item: {}}, Next: Other}
  Other: {Type: Task, Resource: "arn:aws:states:::aws-sdk:s3:getObject", End: true}
"""


def test_what_the_tasks_of_a_state_machine_call_is_packed_and_their_hosts_are_checked(tmp_path: Path) -> None:
    (tmp_path / "m.asl.yaml").write_text(TASKS)
    packed = pack_folder(tmp_path, parse_hosts(["api.example.com"]))
    calls = {"aws": ["dynamodb:PutItem dynamodb:table/t"], "aws_own": ["s3:getObject"],
             "http": ["https://api.example.com"]}  # fmt: skip
    assert packed["calls"] == {"default": calls}
    assert "add api.example.com to http_hosts" in refused(tmp_path, "example.org")

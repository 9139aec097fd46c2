"""What a cold start pays for: each handler, in a process of its own, loads what it needs and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.functions.kit import ROOT, environment_of, write_package

PLACE = {"url": "https://sqs.eu-west-1.amazonaws.com/123456789012/q", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"}
HANDLERS = ("api", "authorizer", "coordinator", "live", "sender", "stream", "sweeper", "webhooks", "worker")
# A person's machine's, the compiler's checks, and what costs tenths of a second where only some invocations need it.
# Of botocore, Powertools loads the empty package to see whether there is one.
NOBODY = {"yaml", "rich", "typer", "httpx", "uvicorn", "watchfiles", "sqlite3", "aws_xray_sdk", "jsonschema",
          "fastjsonschema", "networkx", "stepwell.local", "stepwell.cli", "stepwell.testing",
          "stepwell.definition.loader", "m",
          "boto3", "botocore.exceptions", "botocore.loaders", "botocore.session", "urllib3"}  # fmt: skip
NO_RESOLVER = {"aws_lambda_powertools.event_handler", "importlib.metadata", "asyncio"}
NO_CALLS_OVER_HTTP = {"pydantic", "stepwell.api"} | NO_RESOLVER
NO_USER_CODE = {"stepwell.runtime.executor", "stepwell.runtime.steps.registry"}
UNUSED = {
    "api": NO_USER_CODE | NO_RESOLVER | {"stepwell.api.drawing.picture", "stepwell.api.openapi"},
    "authorizer": NO_CALLS_OVER_HTTP | NO_USER_CODE | {"stepwell.aws.store.store", "stepwell.definition.compiler"},
    "coordinator": NO_CALLS_OVER_HTTP | NO_USER_CODE,
    "sender": NO_CALLS_OVER_HTTP
    | NO_USER_CODE
    | {
        "stepwell.aws.store.store",
        "stepwell.definition.compiler",
        "stepwell.runtime.notify.telling",
    },
    "stream": NO_RESOLVER | NO_USER_CODE,
    "live": NO_CALLS_OVER_HTTP | NO_USER_CODE,
    "sweeper": NO_CALLS_OVER_HTTP | NO_USER_CODE,
    "webhooks": NO_USER_CODE | NO_RESOLVER | {"stepwell.api.routes", "stepwell.api.handlers"},
    "worker": {"stepwell.api"} | NO_RESOLVER,
}
# The work of an import is the calls of Python functions that it makes: as a multiple of those of boto3 and two clients,
# which a function without Stepwell that writes to DynamoDB and SQS would load. It is the same however busy the machine
# is, and follows the CPU time. The import's own machinery is not counted: it works more where no bytecode is there yet.
# Measured: api 1.242, webhooks 1.131, worker 0.973, stream 0.743, live 0.71, coordinator and sweeper 0.705,
# sender 0.593, authorizer 0.513.
AT_MOST = {"api": 1.27, "webhooks": 1.15, "worker": 0.98, "stream": 0.765, "coordinator": 0.71, "sweeper": 0.71,
           "live": 0.715, "sender": 0.53, "authorizer": 0.44}  # fmt: skip
MEASURE = """
import json, sys
calls = 0
def count(frame, event, given):
    global calls
    calls += "importlib" not in frame.f_code.co_filename
sys.settrace(count)
{0}
sys.settrace(None)
print(json.dumps([calls, sorted(sys.modules)]))
"""
BOTO3 = "import boto3; boto3.client('dynamodb'); boto3.client('sqs')"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    write_package(folder, "workflow: flow\ntimeline: [{name: a, run: python:m.a}]", "def a(): pass")
    return folder


@cache
def imported(package: Path, statement: str) -> tuple[int, frozenset[str]]:
    """The calls of functions, and the modules that are there afterwards."""
    places = {"resume": PLACE, "work": {"default": PLACE}}
    notifications = {"STEPWELL_NOTIFICATIONS": PLACE["url"], "STEPWELL_DEAD_NOTIFICATIONS": PLACE["url"]}
    more = {**notifications, "STEPWELL_BUS": "bus", "STEPWELL_LIVE_TABLE": "live"}
    # Nothing of the machine's: boto3 makes calls for each variable that is set, and reads the files of a home.
    environment = {**environment_of(places), **more, "PATH": os.environ["PATH"], "HOME": str(package)}
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", MEASURE.format(statement)],
        cwd=package, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    calls, modules = json.loads(done.stdout.splitlines()[-1])
    return calls, frozenset(modules)


def test_handlers_are_thin() -> None:
    handlers = {path.stem: len(path.read_text().splitlines()) for path in (ROOT / "functions").glob("*.py")}
    assert handlers.keys() == {*HANDLERS, "__init__"}
    assert max(handlers.values()) < 60


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_imports_nothing_that_it_does_not_need(package: Path, handler: str) -> None:
    _, modules = imported(package, f"import functions.{handler}")
    assert modules & (NOBODY | UNUSED[handler]) == set()


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handlers_import_takes_its_work_and_no_more(package: Path, handler: str) -> None:
    calls, _ = imported(package, f"import functions.{handler}")
    compared, _ = imported(package, BOTO3)
    assert calls <= compared * AT_MOST[handler]


def refusal(package: Path, handler: str, **changes: str) -> str:
    """What a handler says that cannot begin."""
    given: dict[str, Any] = {**os.environ, **environment_of({"resume": PLACE, "work": {"default": PLACE}}), **changes}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", f"import functions.{handler}"],
        cwd=package, env=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["STEPWELL_TABLE", "STEPWELL_BUCKET", "STEPWELL_QUEUES"])
def test_a_handler_that_its_stack_forgot_something_says_what(package: Path, name: str) -> None:
    assert name in refusal(package, "coordinator", **{name: ""})


def test_a_package_without_its_workflows_says_so(tmp_path: Path) -> None:
    write_package(tmp_path, "workflow: flow\ntimeline: [{name: a, run: python:m.a}]")
    (tmp_path / "workflows.json").unlink()
    assert "workflows.json" in refusal(tmp_path, "api")


def test_a_worker_of_a_pool_that_the_stack_does_not_know_says_so(package: Path) -> None:
    assert "huge" in refusal(package, "worker", STEPWELL_POOL="huge")

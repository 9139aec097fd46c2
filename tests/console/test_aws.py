"""The console on the deployed stack, which an emulator runs: `stepwell dev --aws`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from playwright.sync_api import Page, expect

from stepwell.api.console import is_built
from stepwell.aws.emulation.emulator import ACCOUNT, ANY_SECRET, REGION
from tests.console.kit import Deployed, frames_of, is_fed, take_to_its_end
from tests.contract.live_kit import FLOW, STEPS

pytestmark = pytest.mark.slow

SECONDS = 300.0  # the emulator starts each function when it is first called
# The command, where the names below localhost that API Gateway's have here are known, as browsers know them.
COMMAND = """
import socket
known = socket.getaddrinfo
def found(host, *more, **named):
    return known("127.0.0.1" if str(host).endswith(".localhost") else host, *more, **named)
socket.getaddrinfo = found
from stepwell.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def stack(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    place: Path = tmp_path_factory.mktemp("aws")
    (place / "workflows").mkdir()
    (place / "workflows" / "flow.yaml").write_text(FLOW)
    (place / "workflows" / "m.py").write_text(STEPS)
    made = Deployed(place / "workflows", place / "data")
    assert made.line.startswith("ready "), made.errors
    yield made
    made.end()


def test_a_run_is_started_approved_and_watched_to_its_end(stack: Deployed, page: Page) -> None:
    """Its feed is API Gateway's, and tells of the end."""
    for path in ("/workflows", "/stats", "/stream"):
        stack.call("GET", path)  # each starts a function, one after the other
    frames = frames_of(page)
    page.set_default_timeout(SECONDS * 1000)
    page.goto(f"{stack.url}/#/runs?workflow=flow")
    page.get_by_role("button", name="Start a run").click()
    take_to_its_end(page, SECONDS)
    assert is_fed(page, frames, ("step.completed", "greet"), seconds=int(SECONDS))


def test_the_command_signs_what_a_person_does_with_their_credentials(stack: Deployed, page: Page) -> None:
    """`auth: iam`, without a login page: the history has the name that AWS knows them by. The feed is the stack's."""
    frames = frames_of(page)
    page.set_default_timeout(SECONDS * 1000)
    with console_of(api_of(stack), key_of(stack, "ana")) as url:
        page.goto(url)
        assert "key=" not in page.url
        page.get_by_role("button", name="Start a run").click()
        take_to_its_end(page, SECONDS)
        writer = page.locator(".entry", has_text="approval.received").get_by_text("by arn:")
        expect(writer).to_have_attribute("title", f"arn:aws:iam::{ACCOUNT}:user/ana")
        assert is_fed(page, frames)


def client(stack: Deployed, service: str) -> Any:
    (url,) = re.findall(r"deployed to (http://\S+)", stack.errors)
    keys = {"aws_access_key_id": ACCOUNT, "aws_secret_access_key": ANY_SECRET}
    return boto3.client(service, endpoint_url=url, region_name=REGION, **keys)


def api_of(stack: Deployed) -> str:
    """The address of the stack's API, as its owner knows it."""
    apis = client(stack, "apigatewayv2").get_apis()["Items"]
    (found,) = (one["ApiEndpoint"] for one in apis if one["ProtocolType"] == "HTTP")
    return str(found)


def key_of(stack: Deployed, name: str) -> dict[str, str]:
    """The variables of somebody who has a user in the account."""
    users = client(stack, "iam")
    users.create_user(UserName=name)
    key = users.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


@contextmanager
def console_of(api: str, key: dict[str, str]) -> Iterator[str]:
    """Runs `stepwell console`. Yields the address that it prints."""
    assert is_built()
    process = subprocess.Popen(  # noqa: S603 - this Python, these words
        [sys.executable, "-c", COMMAND, "console", "--no-open", "--url", api],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **key, "AWS_REGION": REGION},
    )  # fmt: skip
    try:
        line = process.stdout.readline().strip() if process.stdout else ""
        assert line.startswith("ready "), line
        yield line.removeprefix("ready ")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

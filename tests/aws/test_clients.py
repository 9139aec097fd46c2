"""The clients of boto3, where a call may take as long as an invocation."""

from __future__ import annotations

import socket
from typing import Any

import boto3
import pytest

from stepwell.aws.clients import Clients
from stepwell.sockets import STAYING_OPEN


class Noted(socket.socket):
    """A socket that reaches nobody, and notes its options."""

    options: list[Any] = []  # noqa: RUF012 - of all of them

    def setsockopt(self, *option: Any) -> None:
        self.options.append(option)

    def connect(self, address: object) -> None:
        raise ConnectionRefusedError


@pytest.mark.parametrize("call", ["a called function", "a service of a step"])
def test_a_connection_that_waits_for_minutes_gives_signs_of_life(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS drops one on which nothing is sent for 350 seconds: a function's answer never came, and it ran again."""
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    clients = Clients(session)
    client: Any = clients.lambda_() if call == "a called function" else clients.service("sqs")
    monkeypatch.setattr(Noted, "options", [])
    monkeypatch.setattr(socket, "socket", Noted)
    with pytest.raises(Exception, match="Could not connect"):
        client.invoke(FunctionName="f") if call == "a called function" else client.list_queues()
    assert set(STAYING_OPEN) <= set(Noted.options)

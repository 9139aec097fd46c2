"""The clients of boto3 whose calls are not repeated, and may take as long as an invocation."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
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


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture
def one_answer_each() -> Iterator[str]:
    """The address of a service that answers one request of each connection, and drops it with the next one.

    So it is for a process that stood still: it does not see that the connection was closed.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    made, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=[made], daemon=True).start()

        def answer(made: socket.socket) -> None:
            requests = 0
            with made:
                while requests < 2 and (data := made.recv(65_536)):
                    begun = data.count(b"POST /")  # a body may come apart, or with the next request behind it
                    requests += begun
                    if requests == 1 and begun:
                        made.sendall(ANSWER)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("call", ["a called function", "a service of a step"])
def test_a_process_that_stood_still_calls_over_a_new_connection(
    call: str, one_answer_each: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call is repeated, so that a dead connection would fail the step."""
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_answer_each)
    now = [0.0]
    clients = Clients(session, now_seconds=lambda: now[0])

    def ask() -> None:
        if call == "a called function":
            called: Any = clients.lambda_().invoke(FunctionName="f")["Payload"]
            assert called.read(100) == b"{}"
        else:
            clients.service("sqs").list_queues()

    for _ in range(3):
        ask()
        now[0] += 60
    ask()
    now[0] += 1
    with pytest.raises(Exception, match="closed"):  # the connection of a second ago was used again
        ask()
    for client in clients._made.values():
        client.close()

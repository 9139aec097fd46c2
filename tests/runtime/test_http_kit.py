"""The server of the tests: what it leaves behind, which is nothing."""

from __future__ import annotations

import socket
import threading

from tests.runtime.http_kit import Server, reply


def test_a_server_s_thread_ends_with_the_server() -> None:
    before = set(threading.enumerate())
    with Server(reply()):
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before


def test_a_client_that_goes_away_in_the_middle_of_its_request_is_not_waited_for() -> None:
    before = set(threading.enumerate())
    with Server(reply()) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf")
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(65_536)  # it has answered the first one then
    assert set(threading.enumerate()) <= before
    assert server.asked[0].endswith(b"half")

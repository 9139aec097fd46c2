"""The thin client's connections, over real sockets: what is kept, what breaks, and what is told about it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest

from stepwell.aws.failures import NoAnswer, NotSent
from stepwell.aws.thin.wire import Place, Wire, place_of
from tests.contract.kit import at_once

REQUEST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"
WHOLE = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX-Amz-Crc32: 1\r\n\r\n{"a":1}'


def says(answer: bytes) -> Callable[[socket.socket], bool]:
    def act(connection: socket.socket) -> bool:
        connection.sendall(answer)
        return True

    return act


def says_and_closes(answer: bytes) -> Callable[[socket.socket], bool]:
    def act(connection: socket.socket) -> bool:
        connection.sendall(answer)
        return False

    return act


def resets(connection: socket.socket) -> bool:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def says_nothing(connection: socket.socket) -> bool:
    return bool(connection.recv(1))  # until the other side gives up


@dataclass
class Server:
    """Does one of its acts for each request that it gets, and counts the connections."""

    acts: list[Callable[[socket.socket], bool]]
    heard: list[bytes] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.place = Place("127.0.0.1", self._listening.getsockname()[1], False, "/")
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the test may be over
            is_open = True
            while is_open and (heard := connection.recv(65_536)):
                self.heard.append(heard)
                is_open = self.acts.pop(0)(connection)
        self.closed.set()

    @property
    def requests(self) -> int:
        return len(self.heard)

    def stop(self) -> None:
        """Ends its threads."""
        self._listening.shutdown(socket.SHUT_RDWR)
        for connection in self.connections:
            with suppress(OSError):  # it is closed
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._listening.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Server, Wire]]]:
    with ExitStack() as stack:

        def served(*acts: Callable[[socket.socket], bool], kept: int = 2) -> tuple[Server, Wire]:
            server = Server(list(acts))
            wire = Wire(server.place, connect_seconds=1, answer_seconds=0.2, kept=kept)
            stack.callback(server.stop)
            stack.callback(wire.close)  # first
            return server, wire

        yield served


Serve = Callable[..., tuple[Server, Wire]]


def test_a_connection_is_kept_for_the_next_request(serve: Serve) -> None:
    server, wire = serve(says(WHOLE), says(WHOLE))
    for _ in range(2):
        reply = wire.send(REQUEST)
        assert (reply.status, reply.body, reply.headers["x-amz-crc32"]) == (200, b'{"a":1}', "1")
    assert (len(server.connections), server.requests) == (1, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.0 500 Oh\r\n\r\nabc",
        b"HTTP/1.1 500\r\n\r\nabc",
    ],
    ids=["in chunks", "closes", "old", "until the end"],
)
def test_an_answer_has_its_body_however_its_end_is_told(serve: Serve, answer: bytes) -> None:
    is_kept = b"chunked" in answer
    server, wire = serve(says(answer) if is_kept else says_and_closes(answer), says(WHOLE))
    reply = wire.send(REQUEST)
    assert (reply.status, reply.body) == (500, b"abc")
    assert wire.send(REQUEST).status == 200
    assert len(server.connections) == (1 if is_kept else 2)


def test_a_connection_that_was_closed_meanwhile_is_replaced_before_anything_is_sent(serve: Serve) -> None:
    server, wire = serve(says_and_closes(WHOLE), says(WHOLE))
    wire.send(REQUEST)
    assert server.closed.wait(5)
    assert wire.send(REQUEST).status == 200
    assert (len(server.connections), server.requests) == (2, 2)  # and none was sent twice


def test_what_nobody_asked_for_is_not_taken_for_an_answer(serve: Serve) -> None:
    server, wire = serve(says(WHOLE + b"HTTP/1.1 404 No\r\n"), says(WHOLE))
    wire.send(REQUEST)
    assert wire.send(REQUEST).status == 200
    assert len(server.connections) == 2


@pytest.mark.parametrize(
    "act",
    [
        resets,
        says_and_closes(b""),
        says_and_closes(WHOLE[:-1]),
        says_and_closes(WHOLE[:30]),
        says_and_closes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        says_and_closes(b"not HTTP\r\n\r\n"),
        says_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
        says_and_closes(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 3 + b"c" * 70_000),
        says_nothing,
        says(WHOLE[:30]),
    ],
    ids=["reset", "closed", "half a body", "half a head", "half a chunk", "no HTTP", "no length", "endless line",
         "slow", "slow within"],
)  # fmt: skip
def test_a_broken_answer_is_no_answer_and_its_connection_is_not_used_again(
    serve: Serve, act: Callable[[socket.socket], bool]
) -> None:
    server, wire = serve(act, says(WHOLE))
    with pytest.raises(NoAnswer):
        wire.send(REQUEST)
    assert wire.send(REQUEST).status == 200
    assert (len(server.connections), server.requests) == (2, 2)


def test_after_no_answer_the_next_request_goes_over_a_new_connection(serve: Serve) -> None:
    """Those that have been idle for longer may be as dead, and each would use up one of a call's tries."""
    gate = threading.Barrier(3)

    def together(connection: socket.socket) -> bool:
        gate.wait(5)
        connection.sendall(WHOLE)
        return True

    server, wire = serve(*[together] * 3, says_nothing, says(WHOLE), kept=3)
    at_once(3, lambda _: wire.send(REQUEST))
    assert len(wire._idle) == 3
    with pytest.raises(NoAnswer):
        wire.send(REQUEST)
    assert wire.send(REQUEST).status == 200
    assert (len(server.connections), server.requests) == (4, 5)


def test_without_a_connection_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for place in (Place("127.0.0.1", port, False, "/"), Place("no-such-host.invalid", 443, True, "/")):
        with pytest.raises(NotSent, match="no connection"):
            Wire(place, connect_seconds=1, answer_seconds=1, kept=1).send(REQUEST)


def test_a_server_that_does_not_speak_tls_gets_no_request(serve: Serve) -> None:
    server, _ = serve(says_and_closes(b"HTTP/1.1 400 No\r\n\r\n"))
    place = Place("127.0.0.1", server.place.port, True, "/")
    with pytest.raises(NotSent):
        Wire(place, connect_seconds=1, answer_seconds=1, kept=1).send(REQUEST)


def test_threads_have_connections_of_their_own_and_no_more_are_kept_than_allowed(serve: Serve) -> None:
    gate = threading.Barrier(4)

    def together(connection: socket.socket) -> bool:
        gate.wait(5)  # all four requests are under way
        connection.sendall(WHOLE)
        return True

    server, wire = serve(*[together] * 4, *[says(WHOLE)] * 2)
    assert {reply.status for reply in at_once(4, lambda _: wire.send(REQUEST))} == {200}
    assert len(server.connections) == 4
    assert len(wire._idle) == 2


@pytest.mark.parametrize(
    ("url", "place", "authority"),
    [
        ("https://sqs.eu-west-1.amazonaws.com", Place("sqs.eu-west-1.amazonaws.com", 443, True, "/"),
         "sqs.eu-west-1.amazonaws.com"),
        ("http://127.0.0.1:4566/", Place("127.0.0.1", 4566, False, "/"), "127.0.0.1:4566"),
        ("http://[::1]:4566/x", Place("::1", 4566, False, "/x"), "[::1]:4566"),
    ],
)  # fmt: skip
def test_an_endpoint_is_read_from_its_url(url: str, place: Place, authority: str) -> None:
    assert place_of(url) == place
    assert place.authority == authority

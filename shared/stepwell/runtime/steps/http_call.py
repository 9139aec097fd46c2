"""Sends one HTTP request over a connection of its own, and returns the answer, limited in time and size.

It uses the standard library's client, which follows no redirect, uses no proxy, and is always installed. It is imported
by the first HTTP step, not by a worker's cold start.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BufferedReader, RawIOBase
from typing import Any

from stepwell.definition.targets import HTTP_PORT, HTTPS_PORT, Target
from stepwell.limits import ANSWER_BYTES, CONNECT_MS, SECOND_MS
from stepwell.runtime.steps.addresses import Resolve, checked_addresses, resolve
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.threads import AttemptTimeoutError
from stepwell.sockets import STAYING_OPEN
from stepwell.values import dataclass

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer. Header names are in lower case; headers of one name are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def dial(address: str, port: int, timeout_seconds: float) -> socket.socket:
    """Connects to an address. Raises OSError."""
    made = socket.create_connection((address, port), timeout_seconds)
    for option in STAYING_OPEN:
        made.setsockopt(*option)
    return made


@cache
def trusted() -> ssl.SSLContext:
    """Returns a TLS context with the system's authorities, which checks host names."""
    return ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Network:
    """How a request leaves this machine; tests replace it."""

    resolve: Resolve = resolve
    dial: Callable[[str, int, float], socket.socket] = dial
    tls: Callable[[], ssl.SSLContext] = trusted


class Deadline:
    """The time by which a call must be over."""

    def __init__(self, now_seconds: Callable[[], float], limit_seconds: float) -> None:
        self._now, self._until = now_seconds, now_seconds() + limit_seconds

    def left_seconds(self) -> float:
        """Returns the seconds left, more than 0. Raises AttemptTimeoutError."""
        left = self._until - self._now()
        if left <= 0:
            raise AttemptTimeoutError
        return left


@dataclass(frozen=True, slots=True)
class Sending:
    """A request as it is sent. Its headers hold secrets, so `repr` leaves them out."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None
    wants_body: bool = True  # whether the answer's is read

    def __repr__(self) -> str:
        return f"<{self.method} {self.target.origin}>"


def send(sending: Sending, network: Network, deadline: Deadline) -> Answer:
    """Sends the request and returns the answer. Raises CallError; AttemptTimeoutError after the deadline."""
    where = sending.target.origin
    addresses = checked_addresses(sending.target, network.resolve)
    connection = _Connection(sending.target, addresses, network, deadline)
    try:
        return _exchange(connection, sending, deadline)
    except TimeoutError as error:  # a socket's: of the whole call, or of connecting
        deadline.left_seconds()
        raise CallError("http_connection", "transient", f"{where} does not answer") from error
    except ssl.SSLCertVerificationError as error:
        message = f"{where} cannot prove who it is: {error.verify_message}"
        raise CallError("http_certificate", "external", message) from error
    except (OSError, http.client.IncompleteRead) as error:  # also RemoteDisconnected
        message = f"the connection to {where} failed: {type(error).__name__}"
        raise CallError("http_connection", "transient", message) from error
    except (http.client.HTTPException, ValueError):  # without its message, which may quote what was sent
        raise CallError("bad_answer", "external", f"{where} does not speak HTTP as it should") from None
    finally:
        connection.close()


class _Connection(http.client.HTTPConnection):
    """Connects to a checked address, and verifies the certificate for the host's name."""

    def __init__(self, target: Target, addresses: Sequence[str], network: Network, deadline: Deadline) -> None:
        super().__init__(target.host, target.port)
        self.default_port = HTTPS_PORT if target.scheme == "https" else HTTP_PORT  # else the port is in `Host`
        self._target, self._addresses, self._network, self._deadline = target, addresses, network, deadline

    def connect(self) -> None:
        last: OSError = ConnectionError("no address")
        for address in self._addresses:
            seconds = min(self._deadline.left_seconds(), CONNECT_MS / SECOND_MS)
            try:
                self.sock = self._network.dial(address, self._target.port, seconds)
                break
            except OSError as error:
                last = error
        else:
            raise last
        if self._target.scheme == "https":
            self.sock.settimeout(self._deadline.left_seconds())
            self.sock = self._network.tls().wrap_socket(self.sock, server_hostname=self._target.host.strip("[]"))

    def send(self, data: Any) -> None:
        for start in range(0, len(data), _CHUNK):
            self.sock.settimeout(self._deadline.left_seconds())
            self.sock.sendall(data[start : start + _CHUNK])


class _Received(RawIOBase):
    """What comes over a connection until the deadline. A socket's own time limit begins anew with each byte."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left_seconds())
        return self._sock.recv_into(buffer)

    def makefile(self, mode: str) -> BufferedReader:
        """Returns what the standard library's client reads from."""
        return BufferedReader(self, _CHUNK)


def _exchange(connection: _Connection, sending: Sending, deadline: Deadline) -> Answer:
    connection.connect()
    connection.putrequest(sending.method, sending.target.path, skip_accept_encoding=True)
    for name, value in sending.headers.items():
        connection.putheader(name, value)
    connection.endheaders(sending.body)
    received: Any = _Received(connection.sock, deadline)
    response = http.client.HTTPResponse(received, method=sending.method)
    try:
        response.begin()
        headers = {name.lower(): ", ".join(response.headers.get_all(name, ())) for name in response.headers}
        return Answer(response.status, headers, _body(response) if sending.wants_body else b"")
    finally:
        response.close()


def _body(response: http.client.HTTPResponse) -> bytes:
    """Returns the whole body, read in parts so that a large one does not go on for ever."""
    if (response.length or 0) > ANSWER_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    while True:
        part = response.read1(_CHUNK)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES:
            raise _too_large()
    if response.length:  # the body ended early
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _too_large() -> CallError:
    return CallError("answer_too_large", "step", f"the answer has more than {ANSWER_BYTES} bytes")

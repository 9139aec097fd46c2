"""HTTP/1.1 to one endpoint, over connections that are kept for the next request. Safe for threads.

One write and one answer; no redirects, no compression. A kept connection that its other side has closed meanwhile is
replaced before anything is sent. After that no request is repeated here: the caller knows what a repetition means.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import urlsplit

from stepwell.aws.failures import AwsError, NoAnswer, NotSent
from stepwell.values import dataclass

LINE_BYTES = 65_536  # of the longest line that is read
PIECE_BYTES = 65_536  # read at once
MOST_HEADERS = 100


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where an endpoint is."""

    host: str
    port: int
    is_tls: bool
    path: str

    @property
    def authority(self) -> str:
        """The header `host`: without a port that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def place_of(url: str) -> Place:
    """Reads an endpoint's URL. Raises ValueError for a port that is no number."""
    found = urlsplit(url)
    is_tls = found.scheme == "https"
    return Place(found.hostname or "", found.port or (443 if is_tls else 80), is_tls, found.path or "/")


class Wire:
    """The connections to one endpoint."""

    def __init__(
        self, place: Place, *, connect_seconds: float, answer_seconds: float, kept: int, ca_file: str = ""
    ) -> None:
        """`answer_seconds` is the longest pause between two bytes, `kept` how many idle connections stay open."""
        self.place = place
        self._connect_seconds, self._answer_seconds = connect_seconds, answer_seconds
        self._kept, self._ca_file = kept, ca_file
        self._idle: list[_Connection] = []  # its append and pop need no lock

    def send(self, request: bytes) -> Reply:
        """Sends the bytes of a request. Raises NotSent, NoAnswer, AwsError."""
        connection = self._take()
        is_open = False
        try:
            reply, is_open = connection.exchange(request)
        except NoAnswer:
            self.close()  # they have been idle for longer, and are most likely as dead
            raise
        finally:
            if is_open and len(self._idle) < self._kept:
                self._idle.append(connection)
            else:
                connection.close()
        return reply

    def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> _Connection:
        """Returns the connection that was used last, because it is the least likely to be closed; else a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if connection.is_silent():
                return connection
            connection.close()

    def _connect(self) -> _Connection:
        place = self.place
        try:
            made = socket.create_connection((place.host, place.port), self._connect_seconds)
        except OSError as error:
            raise NotSent(f"no connection to {place.authority}: {error}") from error
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if place.is_tls:
                made = _trusted(self._ca_file).wrap_socket(made, server_hostname=place.host)
            made.settimeout(self._answer_seconds)
        except ssl.SSLCertVerificationError as error:
            made.close()
            raise AwsError(f"the certificate of {place.authority} is not trusted: {error.verify_message}") from error
        except OSError as error:
            made.close()
            raise NotSent(f"no connection to {place.authority}: {error}") from error
        return _Connection(made)


@cache
def _trusted(ca_file: str) -> ssl.SSLContext:
    """Returns the settings of TLS with these authorities, or the system's: once, because reading them takes long."""
    return ssl.create_default_context(cafile=ca_file or None)


class _Connection:
    """One open connection."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket, self._incoming = opened, _Incoming(opened)
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        self._poll: Callable[[int], list[tuple[int, int]]] = poll.poll

    def is_silent(self) -> bool:
        """Tells whether the other side has sent nothing since its last answer, not even that it closes."""
        return self._incoming.is_empty() and not self._poll(0)

    def exchange(self, request: bytes) -> tuple[Reply, bool]:
        """Returns the answer, and whether the connection stays open."""
        try:
            self._socket.sendall(request)
            return _read(self._incoming)
        except TimeoutError as error:
            raise NoAnswer("no answer in time") from error
        except (OSError, ValueError) as error:
            raise NoAnswer(f"the connection broke: {error or type(error).__name__}") from error

    def close(self) -> None:
        self._socket.close()


class _Incoming:
    """What the other side sends, and how far it has been read."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._came, self._at = b"", 0

    def is_empty(self) -> bool:
        return self._at == len(self._came)

    def line(self) -> str:
        while (end := self._came.find(b"\n", self._at)) < 0:
            if len(self._came) - self._at > LINE_BYTES:
                raise ValueError("a line without an end")
            if not self._more():
                raise ValueError("it ends within a line")
        found, self._at = self._came[self._at : end], end + 1
        return found.rstrip(b"\r").decode("latin-1")

    def exactly(self, size: int) -> bytes:
        parts, missing = [], size
        while True:
            parts.append(self._came[self._at : self._at + missing])
            self._at += len(parts[-1])
            missing -= len(parts[-1])
            if not missing:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            if not self._more():
                raise ValueError(f"{size - missing} of {size} bytes came")

    def rest(self) -> bytes:
        """Returns everything until the other side closes."""
        while self._more():
            pass
        found, self._at = self._came[self._at :], len(self._came)
        return found

    def _more(self) -> bool:
        """Waits for more. Returns False if the other side has closed."""
        came = self._socket.recv(PIECE_BYTES)
        self._came, self._at = self._came[self._at :] + came, 0
        return bool(came)


def _read(incoming: _Incoming) -> tuple[Reply, bool]:
    """Reads an answer. Raises OSError, ValueError if it is none or not whole."""
    version, _, rest = incoming.line().partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("it is not HTTP/1.1")
    status = int(rest[:3])
    headers = _headers(incoming)
    is_open = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        body = _chunks(incoming)
    elif length is not None:
        body = incoming.exactly(int(length))
    else:
        body, is_open = incoming.rest(), False
    return Reply(status, headers, body), is_open


def _headers(incoming: _Incoming) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := incoming.line():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
        if len(headers) > MOST_HEADERS:
            raise ValueError("too many headers")
    return headers


def _chunks(incoming: _Incoming) -> bytes:
    """Reads a body whose length nobody knew at its beginning."""
    parts = []
    while size := int(incoming.line().partition(";")[0], 16):
        parts.append(incoming.exactly(size))
        incoming.line()
    _headers(incoming)  # the trailers
    return b"".join(parts)

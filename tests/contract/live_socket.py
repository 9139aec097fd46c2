"""A WebSocket client of the live feed, as a browser has one."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Self

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request, TextMessage

from tests.contract.live_kit import seen

DEADLINE_SECONDS = 120.0


class Socket:
    """One connection to `host:port`; `is_open` tells whether it was let in."""

    def __init__(self, host: str, path: str, origin: str = "", tls: ssl.SSLContext | None = None) -> None:
        name, _, port = host.partition(":")
        plain = socket.create_connection((name, port), DEADLINE_SECONDS)
        self._socket = tls.wrap_socket(plain, server_hostname=name) if tls else plain
        self._protocol, self._events = WSConnection(ConnectionType.CLIENT), iter(list[Event]())
        headers = [(b"origin", origin.encode())] if origin else []
        self._send(Request(host=host, target=path, extra_headers=headers))
        self.is_open = isinstance(self.event(), AcceptConnection)

    def _send(self, event: Event) -> None:
        self._socket.sendall(self._protocol.send(event))

    def event(self) -> Event:
        while (found := next(self._events, None)) is None:
            self._protocol.receive_data(self._socket.recv(65_536) or None)
            self._events = iter(list(self._protocol.events()))
        return found

    def ask(self, after: str | None = None) -> str:
        """Returns the page that answers. What is committed meanwhile may come before it, and is in it."""
        self._send(TextMessage(json.dumps({} if after is None else {"after": after})))
        while set(json.loads(found := self.frame())) == {"entries"}:
            pass
        return found

    def frame(self) -> str:
        parts: list[str] = []
        while isinstance(event := self.event(), TextMessage):
            parts.append(event.data)
            if event.message_finished:
                return "".join(parts)
        raise AssertionError(f"the feed ended: {event}")

    def until(self, kind: str) -> list[str]:
        """The frames up to the one with an entry of this type."""
        frames = [self.frame()]
        while not any(one == kind for one, _ in seen(frames)):
            frames.append(self.frame())
        return frames

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

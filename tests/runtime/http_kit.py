"""A server that answers with whatever bytes it is given, over TCP or TLS, and an attempt of a step that asks it."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepwell.definition.targets import parse_hosts
from stepwell.engine.actions import Outcome
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.http_call import Network
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind
from stepwell.runtime.stores.clocks import RealClock

HOST = "api.example.com"
PUBLIC = "93.184.216.34"
Reply = Callable[[bytes], Iterable[bytes]]


def reply(status: str = "200 OK", body: bytes | str = b"", **headers: str) -> bytes:
    """An answer as it stands on the wire; `content_type` is the header Content-Type."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def as_json(body: str, status: str = "200 OK") -> bytes:
    return reply(status, body, content_type="application/json")


class Server:
    """Answers each connection with the next of its replies, the last one ever after. `asked` holds the requests."""

    def __init__(self, *replies: bytes | Reply, tls: ssl.SSLContext | None = None) -> None:
        self._replies, self._tls, self.asked = list(replies), tls, list[bytes]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="answering", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # where closing is enough
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a connection
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            try:
                self._answer(connection)
            except OSError:
                connection.close()  # the client went away, as it may

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        with connection:
            self.asked.append(_request(connection))
            given = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
            for part in [given] if isinstance(given, bytes) else given(self.asked[-1]):
                connection.sendall(part)


def _request(connection: socket.socket) -> bytes:
    """All of one request, by its Content-Length."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65_536)
        if not part:
            return found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line), 0)
    while len(body) < length and (part := connection.recv(65_536)):
        body += part
    return head + b"\r\n\r\n" + body


class World:
    """A network in which every name is where `addresses` says, and every address is the server. Keeps what was done."""

    def __init__(self, server: Server, tls: ssl.SSLContext, *addresses: Sequence[str]) -> None:
        self._server, self._tls, self._addresses = server, tls, list(addresses or ([PUBLIC],))
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    @property
    def network(self) -> Network:
        return Network(self._resolve, self._dial, lambda: self._tls)

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        return self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]

    def _dial(self, address: str, port: int, timeout_seconds: float) -> socket.socket:
        self.dialled.append((address, port))
        return socket.create_connection(("127.0.0.1", self._server.port), timeout_seconds)


def http_steps(network: Network, hosts: str = HOST, clock: Callable[[], float] | None = None, **secrets: str) -> Any:
    """What sends: `secrets` are the variables that `env:` finds."""
    known = SecretsByKind({"env": EnvironmentSecrets(secrets)})
    more = {} if clock is None else {"now_seconds": clock}
    return HttpSteps(parse_hosts(hosts.split(",")), known, network, **more)


def attempt(http: HttpSteps | None, method: str = "GET", path: str = "/", **more: Any) -> Outcome:
    """One attempt of `http:METHOD https://api.example.com/…`, by the real executor."""
    request = {"method": method, "url": more.pop("url", f"https://{HOST}{path}"), "headers": more.pop("headers", {}),
               "body": more.pop("body", "json")}  # fmt: skip
    values = {
        "run": f"http:{method} https://{HOST}", "input": more.pop("given", None), "run_id": "r1", "workflow": "w",
        "token": "0", "node": "n", "attempt": 1, "key": "r1:0:4", "timeout_ms": 5_000, "resumed": None,
        "read_state": dict, "request": request, **more,
    }  # fmt: skip
    steps = FunctionSteps(Path(), RealClock(), Calls() if http is None else Calls(http))
    return run_now(steps.run(StepCall(**values)))


def certificate(folder: Path, name: str = HOST) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(the server's, a client's that trusts it): a certificate of its own for the name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                          key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                          decipher_only=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{name}.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))

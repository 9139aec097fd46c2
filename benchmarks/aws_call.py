"""What one append to DynamoDB costs in CPU: the thin client beside boto3, the same request to the same server.

    uv run python benchmarks/aws_call.py           over HTTP, and over TLS where openssl makes a certificate
    uv run python benchmarks/aws_call.py --json

The server is a stub in another process that answers as DynamoDB does, so only the client's own time is measured. Rounds
of both are taken in turns, and the median counts. Both run below `Table.put_new`, as in a worker.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import socketserver
import ssl
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import boto3

from stepwell.aws.clients import Clients
from stepwell.aws.store.keys import record_key
from stepwell.aws.store.table import Table
from stepwell.aws.thin.opening import open_thin
from stepwell.memory.blobs import MemoryBlobs
from stepwell.settings import read_aws

CALLS, ROUNDS = 400, 9
BODY = json.dumps({"type": "step_completed", "output": {"text": "x" * 200}, "at_ms": 1_700_000_000_000})
ANSWER = b"{}"
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Fri, 20 Nov 2026 10:00:00 GMT\r\n"
    "Content-Type: application/x-amz-json-1.0\r\n"
    f"Content-Length: {len(ANSWER)}\r\nConnection: keep-alive\r\n"
    "x-amzn-RequestId: 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEF\r\n"
    f"x-amz-crc32: {zlib.crc32(ANSWER)}\r\n\r\n"
).encode() + ANSWER
NAMES = ("thin", "boto3")


class _Stub(socketserver.StreamRequestHandler):
    """Reads requests and answers each in the same way."""

    def handle(self) -> None:
        while length := self._length():
            self.rfile.read(length)
            self.wfile.write(HEAD)

    def _length(self) -> int:
        length = 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return length


def _serve(told: Any, certificate: str) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Stub) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        told.send(server.server_address[1])
        server.serve_forever()


@contextmanager
def stub(certificate: str = "") -> Iterator[str]:
    """The server's URL."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, certificate), daemon=True)
    process.start()
    try:
        yield f"{'https' if certificate else 'http'}://localhost:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def append_of(name: str, url: str, certificate: str) -> Callable[[int], object]:
    """One append by this client."""
    environ = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
               "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "t" * 800, "AWS_CA_BUNDLE": certificate,
               "STEPWELL_AWS_CLIENT": name}  # fmt: skip
    thin = open_thin(read_aws(environ))
    table = Table("table", Clients(None if thin else _Session(url, certificate), thin).dynamodb, MemoryBlobs())

    def append(number: int) -> object:
        return table.put_new({**record_key("01JCXYZ0123456789ABCDEFGHJ", "0", number), "body": {"S": BODY}})

    return append


class _Session:
    """boto3 with the same credentials and endpoint."""

    def __init__(self, url: str, certificate: str) -> None:
        self._session = boto3.Session("AKIDEXAMPLE", "secret", "t" * 800, region_name="us-east-1")
        self._options = {"endpoint_url": url, **({"verify": certificate} if certificate else {})}

    def client(self, service: str, **options: Any) -> Any:
        return self._session.client(service, **self._options, **options)


def measure(url: str, certificate: str = "") -> Mapping[str, float]:
    """Milliseconds of CPU of one append, by client."""
    appends = {name: append_of(name, url, certificate) for name in NAMES}
    for append in appends.values():  # connections, credentials, imports
        append(0)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for round_number in range(ROUNDS):
        for name in NAMES if round_number % 2 else reversed(NAMES):
            began = process_time()
            for number in range(CALLS):
                appends[name](number)
            found[name].append((process_time() - began) * 1_000 / CALLS)
    return {name: median(values) for name, values in found.items()}


def make_certificate(folder: Path) -> str:
    """A certificate with its key for this machine; empty without openssl."""
    if shutil.which("openssl") is None:
        return ""
    file = folder / "both.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    places = ["-keyout", str(file), "-out", str(folder / "c.pem")]
    subprocess.run([*words.split(), *places], check=True, capture_output=True)
    file.write_text(file.read_text() + (folder / "c.pem").read_text())
    return str(file)


def main() -> None:
    """Prints the figures."""
    results: dict[str, Mapping[str, float]] = {}
    with stub() as url:
        results["http"] = measure(url)
    with tempfile.TemporaryDirectory() as folder:
        if certificate := make_certificate(Path(folder)):
            with stub(certificate) as url:
                results["tls"] = measure(url, certificate)
    if "--json" in sys.argv:
        print(json.dumps({kind: {**one, "ratio": one["boto3"] / one["thin"]} for kind, one in results.items()}))
        return
    for kind, one in results.items():
        told = ", ".join(f"{name} {one[name]:.3f} ms" for name in NAMES)
        print(f"{kind:5} {told}; boto3 / thin {one['boto3'] / one['thin']:.1f}")


if __name__ == "__main__":
    main()

"""An async client in several event loops, over real connections that are kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from stepwell.client import AsyncClient

ANSWER = b'{"status":"ok","version":"0.1.0","dependencies":{}}'


class Healthy(BaseHTTPRequestHandler):
    """Answers each call, and keeps its connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def asked(client: AsyncClient) -> object:
    return (await client.health())["status"]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # a loop that ends leaves its connections open
def test_one_client_serves_one_loop_after_the_other(url: str) -> None:
    """Such as `asyncio.run` in each call of a Lambda function."""
    client = AsyncClient(url)
    assert [asyncio.run(asked(client)) for _ in range(3)] == ["ok"] * 3
    asyncio.run(client.close())
    assert len(client._of_loop) == 1  # those of the loops that have ended are gone
    del client
    gc.collect()  # here, where what it warns of is expected

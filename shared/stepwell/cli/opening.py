"""`stepwell console`: the web console on this machine, for an API anywhere, as whoever runs the command."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import ErrorsAsJson, Url
from stepwell.errors import StepwellError
from stepwell.extras import require
from stepwell.settings import read_settings


def console(
    url: Url = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = 0,
    browse: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
    as_json: ErrorsAsJson = False,
) -> None:
    """Open the console for a deployed API. Signs its calls with your credentials."""
    require("dev", "the console")
    place = url or read_settings().url
    if not as_json:
        typer.echo(f"asking {place} whether you may call it", err=True)  # before what takes long: imports, its answer
    from stepwell.api.console import NOT_BUILT, is_built  # noqa: PLC0415 - only for this command

    if not is_built():
        raise StepwellError(NOT_BUILT, code="not_built")
    raise typer.Exit(_serve(place, port, browse=browse))


def _serve(url: str, port: int, *, browse: bool) -> int:
    """Serves on this machine's own address until a signal. The port's other users lack the key of the address."""
    import httpx  # noqa: PLC0415 - with the server, only for this command

    from stepwell.cli.forwarding import Forwarder, feed_of  # noqa: PLC0415
    from stepwell.client import Client  # noqa: PLC0415
    from stepwell.client.clients import api_at  # noqa: PLC0415
    from stepwell.client.requests import Request  # noqa: PLC0415
    from stepwell.local.dev import Server, listen, log_to_stderr, url_of  # noqa: PLC0415
    from stepwell.local.gateway import Gateway  # noqa: PLC0415

    log_to_stderr()
    with Client(url) as client:
        client.workflows()  # whoever may not call it learns that here, and why
    api, key = api_at(url), secrets.token_urlsafe(24)
    with httpx.Client(**api.options) as http:

        def send(method: str, path: str, headers: dict[str, str], content: bytes) -> httpx.Response:
            asked: Request[Any] = Request(method, path, lambda answer: answer, headers=headers, content=content)
            return http.request(**api.arguments(asked))

        feed = feed_of(send, api.url)
        gateway = Gateway(Forwarder(send, api.url, key, feed))
        listening = listen(port)
        server = Server(gateway, threading.Event(), path=f"/?key={key}")
        if browse:
            threading.Timer(0.5, webbrowser.open, [f"{url_of(listening)}/?key={key}"]).start()
        try:
            server.run(sockets=[listening])
        finally:
            gateway.close()
    return 0 if server.started else 1

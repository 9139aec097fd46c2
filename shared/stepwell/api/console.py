"""Serves the web console: one page with its script and style, which reads and acts by the routes that everyone has.

The files are built from `console/` when the wheel is built; a working copy may lack them, and then the page says so.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import stepwell
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.problems import problem
from stepwell.values import dataclass

BUILT = Path(stepwell.__file__).parent / "console"
NOT_BUILT = "The console is not built here: run `uv run python console/build.py`, which needs the npm registry."
_PAGE = "index.html"
_HTML = "text/html; charset=utf-8"
_MEDIA = {"console.js": "text/javascript; charset=utf-8", "console.css": "text/css; charset=utf-8",
          "icon.svg": "image/svg+xml"}  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{connect}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def is_built() -> bool:
    return (BUILT / _PAGE).is_file()


async def get_console_file(call: Call) -> Answer:
    return file_named(call.path["file"])


@dataclass(frozen=True, slots=True)
class Login:
    """Where people sign in: an OpenID issuer, its id of the console as a public client, and whom a token is for.

    `origins`: of the issuer's endpoints.
    """

    issuer: str
    client_id: str
    audience: str
    origins: tuple[str, ...]

    @property
    def meta(self) -> str:
        """The element by which the page knows."""
        said = json.dumps({"issuer": self.issuer, "client_id": self.client_id, "audience": self.audience})
        return f'<meta name="stepwell-login" content="{html.escape(said)}" />'


def login_of(said: Mapping[str, Any] | None) -> Login | None:
    """Reads a login as the stack gives it."""
    return Login(said["issuer"], said["client_id"], said["audience"], tuple(said["origins"])) if said else None


def page_for(accept: str, feed: str = "", login: Login | None = None) -> Answer:
    """Answers browsers with the page; a program that asks for something else finds no route here.

    `feed`: the origin of the live feed, if it is not the page's own.
    """
    if "text/html" not in accept:
        return problem(404, "unknown_route", "there is no route '/' for programs",
                       hint="GET /openapi.json lists the routes; a browser gets the console here")  # fmt: skip
    origins = [*(login.origins if login else ()), *([feed] if feed else [])]
    headers = {**_HEADERS, "Content-Security-Policy": _POLICY.format(connect="".join(f" {one}" for one in origins))}
    if not is_built():
        return Answer(503, f"<!doctype html><title>Stepwell</title><p>{NOT_BUILT}</p>", _HTML, headers)
    page = _read(_PAGE)
    return Answer(200, page.replace("</head>", f"{login.meta}</head>") if login else page, _HTML, headers)


def file_named(name: str) -> Answer:
    """Answers with a file of the console."""
    if name not in _MEDIA or not (BUILT / name).is_file():
        return problem(404, "unknown_route", f"the console has no file {name[:80]!r}",
                       hint="open the console at /")  # fmt: skip
    return Answer(200, _read(name), _MEDIA[name], _HEADERS)


def _read(name: str) -> str:
    return (BUILT / name).read_text(encoding="utf-8")


def origin_of(url: str) -> str:
    """Returns a URL's origin; "" if it has none."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def console_routes(login: Login | None = None, feed: str = "") -> tuple[Route, ...]:
    """Builds the routes of the page and its files. `feed`: the origin of the live feed, if it is not the page's own."""

    async def get_console(call: Call) -> Answer:
        return page_for(call.headers.get("accept", ""), feed, login=login)

    return (
        Route(
            "GET",
            "/",
            get_console,
            "The web console, for browsers",
            {200: "the page", 404: "the caller does not accept HTML"},
            media="text/html",
        ),
        Route(
            "GET",
            "/console/{file}",
            get_console_file,
            "A file of the web console",
            {200: "the file", 404: "no such file"},
            media="text/plain",
        ),
    )

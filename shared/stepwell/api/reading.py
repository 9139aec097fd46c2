"""The routes by which the API describes itself: the OpenAPI document, and a page to read it and try it."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import NoQuery

_PAGE = Path(__file__).with_name("docs.html")
_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def reading_routes(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Builds the routes that describe these ones."""
    made: dict[str, Any] = {}

    async def get_openapi(call: Call) -> Answer:
        """Generates the document at the first request, to keep cold starts fast."""
        from stepwell.api.handlers.looking import installed_version  # noqa: PLC0415 - see below
        from stepwell.api.openapi import document  # noqa: PLC0415 - 4% of a cold start, for this call alone

        if not made:
            made.update(document(routes, installed_version()))
        return Answer(200, made)

    return (
        Route("GET", "/openapi.json", get_openapi, "This document", {200: "OpenAPI 3.1"}),
        Route("GET", "/docs", get_docs, "Read and try the API", {200: "a page"}, media="text/html"),
    )


async def get_docs(call: Call) -> Answer:
    """Answers with the page. It fetches nothing but this API."""
    call.asked(NoQuery)
    text, policy = _page()
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return Answer(200, text, "text/html; charset=utf-8", headers)


@cache
def _page() -> tuple[str, str]:
    """The page, and the policy that lets nothing run but its own style and script."""
    text = _PAGE.read_text(encoding="utf-8")
    own = {
        kind: base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        for kind, inner in _INLINE.findall(text)
    }
    return text, (
        f"default-src 'none'; style-src 'sha256-{own['style']}'; script-src 'sha256-{own['script']}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

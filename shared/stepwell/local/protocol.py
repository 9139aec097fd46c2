"""HTTP as uvicorn reads it, and a refusal of what it cannot read that looks like every other."""

from __future__ import annotations

import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stepwell.api.problems import problem

_REFUSED = problem(
    400,
    "bad_request",
    "this is no HTTP request that the server can read",
    hint="percent-encode what is not ASCII in the URL: `%C3%BC` for `ü`",
)


class Protocol(HttpToolsProtocol):
    """Refuses with a problem: uvicorn's own words have no code and no hint."""

    def send_400_response(self, msg: str) -> None:
        """Answers, and closes the connection. `msg` is uvicorn's."""
        body = json.dumps(_REFUSED.body).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {_REFUSED.content_type}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

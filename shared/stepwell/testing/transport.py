"""Calls of a client in a test: straight into the API's own code, over the test's store and clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx

from stepwell.api.routes import create_app
from stepwell.local.gateway import http_event
from stepwell.runtime.assembly import Assembly

if TYPE_CHECKING:
    from stepwell.local.gateway import Scope


class InProcess(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers each call as the deployed API would. Time passes only when the test moves its clock, so nothing waits."""

    def __init__(self, parts: Assembly, settle: Callable[[], None]) -> None:
        """`settle` handles the due messages, so that a call finds the runs as far as they get by themselves."""
        self._app, self._settle = create_app(parts), settle

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises TimeoutError for a call that would wait until something else happens."""
        self._settle()
        url = request.url.copy_remove_param("wait")
        scope: Scope = {"method": request.method, "raw_path": url.raw_path.partition(b"?")[0], "path": url.path,
                        "query_string": url.query}  # fmt: skip
        answer = self._app.resolve(http_event(scope, dict(request.headers), request.read()))
        is_wait = request.method == "GET" and "wait" in request.url.params
        if is_wait and answer["statusCode"] == httpx.codes.ACCEPTED:
            run = url.path.split("/")[2]
            raise TimeoutError(f"run {run} waits for something that this test has not done: act, or advance the clock")
        return httpx.Response(answer["statusCode"], headers=answer["headers"], text=answer["body"] or "")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)

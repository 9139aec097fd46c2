"""The API as a whole: one table of routes, and the resolver that serves it behind an API Gateway HTTP API.

Every answer is made here from an Answer, also for unknown routes and defects, so each error is a problem document.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from stepwell.api.conditional import etag_of, is_known
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.acting import ACTING_ROUTES
from stepwell.api.handlers.asking import ASKING_ROUTES
from stepwell.api.handlers.batching import BATCHING_ROUTES
from stepwell.api.handlers.dead import DEAD_ROUTES
from stepwell.api.handlers.erasing import ERASING_ROUTES
from stepwell.api.handlers.limiting import LIMITING_ROUTES
from stepwell.api.handlers.linked import LINKED_ROUTES
from stepwell.api.handlers.logs import LOGGING_ROUTES
from stepwell.api.handlers.looking import LOOKING_ROUTES
from stepwell.api.handlers.pausing import PAUSING_ROUTES
from stepwell.api.handlers.recovering import RECOVERING_ROUTES
from stepwell.api.handlers.scheduling import SCHEDULING_ROUTES
from stepwell.api.handlers.starting import STARTING_ROUTES
from stepwell.api.handlers.versions import VERSION_ROUTES
from stepwell.api.identity import identity_of
from stepwell.api.large import sendable
from stepwell.api.parsing import body_bytes
from stepwell.api.problems import problem, problem_answer
from stepwell.api.reading import reading_routes
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.loop.driving import run_now

ROUTES: tuple[Route, ...] = (
    *STARTING_ROUTES,
    *ASKING_ROUTES,
    *ACTING_ROUTES,
    *BATCHING_ROUTES,
    *PAUSING_ROUTES,
    *ERASING_ROUTES,
    *DEAD_ROUTES,
    *RECOVERING_ROUTES,
    *LIMITING_ROUTES,
    *LINKED_ROUTES,
    *LOGGING_ROUTES,
    *LOOKING_ROUTES,
    *SCHEDULING_ROUTES,
    *VERSION_ROUTES,
)

_PARAMETER = re.compile(r"\{(\w+)\}")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Resolver(APIGatewayHttpResolver):
    """A resolver that keeps the current event per instance.

    Powertools keeps it in a class attribute; the dev server answers many calls at once, with a resolver for each.
    """

    def __init__(self) -> None:
        super().__init__()
        self._event: dict[str, Any] = {}

    @property
    def current_event(self) -> APIGatewayProxyEventV2:  # type: ignore[override]  # read-only here: see above
        return APIGatewayProxyEventV2(self._event)

    def resolve(self, event: Any, context: Any) -> dict[str, Any]:
        return run_now(self.resolve_async(event, context))

    async def resolve_async(self, event: Any, context: Any) -> dict[str, Any]:
        """Answers an event; suspends where the clock's `sleep_ms` does."""
        self._event = event
        return await super().resolve_async(event, context)


def create_app(parts: Assembly, more: Iterable[Route] = ()) -> Resolver:
    """Builds the whole API over these parts, for the Lambda handler and the dev server."""
    return app_of(parts, (*ROUTES, *more))


def app_of(parts: Assembly, routes: tuple[Route, ...]) -> Resolver:
    """Builds a resolver for these routes and their document only."""
    app = Resolver()
    table = [*routes, *reading_routes(routes)]
    for route in table:
        rule = _PARAMETER.sub(r"<\1>", route.path)
        methods = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        app.route(rule, method=methods)(_endpoint(app, parts, route))
    patterns = [(re.compile(_PARAMETER.sub("[^/]+", route.path)), route.method) for route in table]
    app.exception_handler(NotFoundError)(functools.partial(_no_route, app, patterns))
    return app


def _endpoint(app: Resolver, parts: Assembly, route: Route) -> Callable[..., Awaitable[Response[str]]]:
    async def endpoint(**path: str) -> Response[str]:
        event = app.current_event
        headers = {name.lower(): value for name, value in (event.raw_event.get("headers") or {}).items()}
        try:
            call = Call(
                parts,
                {name: unquote(value) for name, value in path.items()},
                event.raw_event.get("rawQueryString") or "",
                headers,
                body_bytes(event.raw_event.get("body"), bool(event.raw_event.get("isBase64Encoded"))),
                identity_of(event.raw_event),
            )
            answer = await route.handle(call)
            answer = replace(answer, body=_text(answer))
            answer = await sendable(answer, _text(answer), call.path.get("run_id", ""), parts.ports.blobs)
        except Exception as error:  # the last resort: logs the error and answers with a problem
            answer = problem_answer(error)
        return _response(answer, event.http_method, headers)

    return endpoint


def _no_route(app: Resolver, patterns: list[tuple[re.Pattern[str], str]], error: NotFoundError) -> Response[str]:
    """Answers another method of a known path, or an unknown path."""
    method, path = app.current_event.http_method, app.current_event.path
    known = sorted({allowed for pattern, allowed in patterns if pattern.fullmatch(path)})
    allow = ", ".join([*known, *(["HEAD"] if "GET" in known else []), "OPTIONS"])
    if not known or method in known:  # a known path with a character that paths cannot contain
        answer = problem(404, "unknown_route", f"there is no route {path[:200]!r}", hint="GET /docs lists the routes")
    elif method == "OPTIONS":
        answer = Answer(204, "", headers={"Allow": allow})
    else:
        answer = problem(405, "method_not_allowed", f"{method} is not served here", headers={"Allow": allow})
    return _response(answer, method, {})


def _text(answer: Answer) -> str:
    return answer.body if isinstance(answer.body, str) else _encode(answer.body)


def _response(answer: Answer, method: str, asked: Mapping[str, str]) -> Response[str]:
    """Builds the response; an answer that can be read again has a tag, and a reader who has it gets 304."""
    text = _text(answer)
    headers, status = dict(answer.headers), answer.status
    if status == 200 and method in ("GET", "HEAD"):
        headers["ETag"] = etag = etag_of(text)
        status = 304 if is_known(etag, asked) else 200
    return Response(
        status_code=status,
        content_type=answer.content_type if status not in (204, 304) else None,
        headers=headers,
        body="" if method == "HEAD" or status == 304 else text,
    )

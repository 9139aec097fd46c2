"""Answers the events of an API Gateway HTTP API (payload 2.0) from a table of routes.

Every answer is made here from an Answer, also for unknown routes and defects, so each error is a problem document.
A framework's resolver would be half of what the API loads at a cold start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

from stepwell.api.conditional import etag_of, is_known
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.identity import identity_of
from stepwell.api.large import sendable
from stepwell.api.parsing import body_bytes
from stepwell.api.problems import problem, problem_answer, unreadable
from stepwell.api.reading import reading_routes
from stepwell.api.unreadable import CODES, where_unreadable
from stepwell.errors import EngineFault, NotFound
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.loop.driving import run_now

_PARAMETER, _ROUTES = "/{}", "/"  # no word of a path has a slash
_GATEWAY_NAME = re.compile(r"\{([^{}+]+)\+?\}")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Resolver:
    """The routes over the parts of a store. It keeps nothing of a call, so threads may share it."""

    def __init__(self, parts: Assembly, routes: Iterable[Route]) -> None:
        """A path that is written out goes before one with parameters, whatever their order."""
        self._parts = parts
        self._tree: dict[str, Any] = {}
        for order, route in enumerate(sorted(routes, key=lambda one: "{" in one.path)):
            place = self._tree
            for word in _words(route.path):
                place = place.setdefault(_PARAMETER if word.startswith("{") else word, {})
            place.setdefault(_ROUTES, []).append((order, route))

    def resolve(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answers an event; blocks where `resolve_async` suspends."""
        return run_now(self.resolve_async(event))

    async def resolve_async(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answers an event; suspends where the clock's `sleep_ms` does."""
        method, path = event["requestContext"]["http"]["method"], _path_of(event)
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        found = self._found(path)
        wanted = "GET" if method == "HEAD" else method
        route, names = next(((one, names) for one, names in found if one.method == wanted), (None, {}))
        if route is None:
            slashed = [] if found else self._found(path.rstrip("/"))
            if slashed:
                return _reply(_slashed(path, slashed[0][0]), method, {})
            return _reply(_no_route(method, path, {one.method for one, _ in found}), method, {})
        return _reply(await self._answer(route, names, event, headers), method, headers)

    def _found(self, path: str) -> list[tuple[Route, Mapping[str, str]]]:
        """Returns the routes of a path with their parameters."""
        words = _words(path)
        found = sorted(_routes_at(self._tree, words), key=itemgetter(0))
        return [(route, _parameters(_words(route.path), words)) for _, route in found]

    async def _answer(
        self, route: Route, names: Mapping[str, str], event: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Answer:
        try:
            call = Call(
                self._parts,
                names,
                event.get("rawQueryString") or "",
                headers,
                body_bytes(event.get("body"), bool(event.get("isBase64Encoded"))),
                identity_of(event),
            )
            answer = await route.handle(call)
            answer = replace(answer, body=_text(answer))
            return await sendable(answer, _text(answer), names.get("run_id", ""), self._parts.ports.blobs)
        except Exception as error:  # the last resort: logs the error and answers with a problem
            if route.refused is not None:
                return route.refused(error)
            if isinstance(error, EngineFault) and error.code in CODES and (run_id := names.get("run_id")):
                return unreadable(error, await where_unreadable(self._parts.ports, run_id, error))
            return problem_answer(error)


def app_of(parts: Assembly, routes: tuple[Route, ...]) -> Resolver:
    """Builds a resolver for these routes and their document only."""
    return Resolver(parts, (*routes, *reading_routes(routes)))


def _words(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _routes_at(place: Mapping[str, Any], words: Sequence[str]) -> Iterator[tuple[int, Route]]:
    """Yields the routes at and below a place of the tree that fit the rest of a path, with their order."""
    if not words:
        yield from place.get(_ROUTES, ())
        return
    word, rest = words[0], words[1:]
    if word in place:
        yield from _routes_at(place[word], rest)
    if word and _PARAMETER in place:
        yield from _routes_at(place[_PARAMETER], rest)


def _parameters(row: tuple[str, ...], words: tuple[str, ...]) -> Mapping[str, str]:
    return {name[1:-1]: unquote(word) for name, word in zip(row, words, strict=True) if name.startswith("{")}


def _path_of(event: Mapping[str, Any]) -> str:
    """Returns the path without what a URL may have before it: the stage, or the mapping of a custom domain.

    API Gateway leaves both in `rawPath`, and keeps there one escape, `%25`. The route that it chose says what is below.
    """
    path, stage = str(event["rawPath"]), event["requestContext"].get("stage", "$default")
    below = _below(str(event.get("routeKey") or ""), event.get("pathParameters") or {})
    for whole in (path, unquote(path)) if below else ():
        before = whole.removesuffix(below)
        if before != whole and path.startswith(before):
            return path[len(before) :]
    if below == "/":
        return below
    return path if stage == "$default" else path.removeprefix(f"/{stage}")


def _below(route: str, names: Mapping[str, str]) -> str:
    """Returns the path that a route stands for, as `GET /runs/{id}` or `ANY /{proxy+}`; nothing for `$default`."""
    return _GATEWAY_NAME.sub(lambda found: names.get(found[1], found[0]), route.partition(" ")[2])


def _no_route(method: str, path: str, known: set[str]) -> Answer:
    """Answers another method of a known path, or an unknown path."""
    allow = ", ".join([*sorted(known), *(["HEAD"] if "GET" in known else []), "OPTIONS"])
    if not known:
        return problem(404, "unknown_route", f"there is no route {path[:200]!r}", hint="GET /docs lists the routes")
    if method == "OPTIONS":
        return Answer(204, "", headers={"Allow": allow})
    served = f"{allow}; POST /workflows/{{name}}/runs starts a run" if (method, path) == ("POST", "/runs") else allow
    return problem(405, "method_not_allowed", f"{method} is not served here", hint=f"this path has {served}",
                   headers={"Allow": allow})  # fmt: skip


def _slashed(path: str, route: Route) -> Answer:
    """Answers a path of ours with a slash behind it, in the words of the route's callers: boto3 shows no problems."""
    error = NotFound(f"there is no route {path[:200]!r}", code="unknown_route", hint="leave out the slash at its end")
    return problem_answer(error) if route.refused is None else route.refused(error)


def _text(answer: Answer) -> str:
    return answer.body if isinstance(answer.body, str) else _encode(answer.body)


def _reply(answer: Answer, method: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Returns what API Gateway sends; an answer that can be read again has a tag, and a reader who has it gets 304."""
    text = _text(answer)
    headers, status = dict(answer.headers), answer.status
    if status == 200 and method in ("GET", "HEAD"):
        headers["ETag"] = etag = etag_of(text)
        status = 304 if is_known(etag, asked) else 200
    if status not in (204, 304):
        headers = {"Content-Type": answer.content_type, **headers}
    body = "" if method == "HEAD" or status == 304 else text
    return {"statusCode": status, "headers": headers, "body": body, "isBase64Encoded": False, "cookies": []}

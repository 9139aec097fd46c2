"""A thin client of the HTTP API: one method per call, JSON in and out; problem documents become exceptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx

from stepwell.cli.access import Access, gateway_refusal
from stepwell.cli.refusals import ApiProblem, JsonObject, Unreachable
from stepwell.definition.webhook_schemes import ID_HEADERS, MARK_HEADERS
from stepwell.errors import UserError
from stepwell.limits import PAGE_ITEMS_MAX, WAIT_ANSWER_SECONDS

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = WAIT_ANSWER_SECONDS + 10.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
GATEWAY_REFUSES = frozenset({401, 403, 429, 500, 503, 504})


class Client:
    """The API at a URL. Use it in a `with` statement."""

    def __init__(self, url: str, access: Access = Access()) -> None:  # noqa: B008 - frozen
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            hint = "use a URL such as http://127.0.0.1:8787"
            raise UserError(f"{url!r} is not the URL of an API", code="bad_url", hint=hint)
        self.url = url.rstrip("/")
        named = parts.hostname.endswith(".localhost")  # names this machine, but not every resolver knows it
        self.local = named or parts.hostname in LOOPBACK
        base = self.url.replace(parts.hostname, "127.0.0.1", 1) if named else self.url
        headers = {**access.headers, **({"Host": parts.netloc} if named else {})}
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        # A proxy from the environment cannot reach this machine's loopback.
        self._http = httpx.Client(
            base_url=base, timeout=timeout, trust_env=not self.local, headers=headers, auth=access.auth
        )
        self._caller = access.kind

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def start(self, workflow: str, body: Mapping[str, Any], key: str = "") -> tuple[JsonObject, bool]:
        """Starts a run. False: the key or id was used before, and this is the earlier run."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = self._send("POST", f"/workflows/{_part(workflow)}/runs", json=body, headers=headers)
        return self._object(answer), answer.status_code == httpx.codes.CREATED

    def workflow(self, name: str) -> JsonObject:
        return self._object(self._send("GET", f"/workflows/{_part(name)}"))

    def runs(self, filters: Mapping[str, Any]) -> JsonObject:
        return self._object(self._send("GET", "/runs", params=filters))

    def run(self, run_id: str) -> JsonObject:
        return self._object(self._send("GET", f"/runs/{_part(run_id)}"))

    def wait_for_end(self, run_id: str, seconds: float) -> None:
        """Returns when the run has ended or the time is up; call `run` to see which."""
        answer = self._http_send("GET", f"/runs/{_part(run_id)}/result", params={"wait": seconds})
        if answer.status_code != httpx.codes.CONFLICT:  # the run ended with an error
            self._checked(answer)

    def history(self, run_id: str, after: str = "", *, token: str = "", phases: bool = False) -> Iterator[JsonObject]:
        """The entries after this one, page by page. `token`: of one branch. `phases`: the changes of phase too."""
        asked = ({"phases": True} if phases else {}) | ({"token": token} if token else {})
        return self._pages(f"/runs/{_part(run_id)}/history", asked, {"after": after} if after else {})

    def export(self, run_id: str) -> Iterator[JsonObject]:
        """What a replay reads, line by line."""
        return self._pages(f"/runs/{_part(run_id)}/export", {}, {})

    def _pages(self, path: str, filters: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
        while True:
            page = self._object(self._send("GET", path, params={"limit": PAGE_ITEMS_MAX, **filters, **place}))
            yield from page.get("items", ())
            if not page.get("next_cursor"):
                return
            place = {"cursor": page["next_cursor"]}

    def branches(self, run_id: str, filters: Mapping[str, Any]) -> JsonObject:
        return self._object(self._send("GET", f"/runs/{_part(run_id)}/branches", params=filters))

    def query(self, run_id: str, name: str) -> JsonObject:
        return self._object(self._send("GET", f"/runs/{_part(run_id)}/queries/{_part(name)}"))

    def update(self, run_id: str, name: str, body: Mapping[str, Any], seconds: float) -> JsonObject:
        """Sends an update; returns its answer, or `pending` when the time is up."""
        path = f"/runs/{_part(run_id)}/updates/{_part(name)}"
        return self._object(self._send("POST", path, json=body, params={"wait": seconds}))

    def explain(self, run_id: str) -> JsonObject:
        return self._object(self._send("GET", f"/runs/{_part(run_id)}/explain"))

    def run_graph(self, run_id: str, form: str) -> str:
        return self._send("GET", f"/runs/{_part(run_id)}/graph", params={"format": form}).text

    def act(self, run_id: str, action: str, body: Mapping[str, Any]) -> JsonObject:
        """Sends an action: cancel, terminate, approve, reject or delegate."""
        return self._object(self._send("POST", f"/runs/{_part(run_id)}/{action}", json=body))

    def send_event(self, event: Mapping[str, Any], run_id: str = "") -> JsonObject:
        """Sends an event to one run, or to every wait for its name and key."""
        path = f"/runs/{_part(run_id)}/events" if run_id else "/events"
        return self._object(self._send("POST", path, json=event))

    def deliveries(self, filters: Mapping[str, Any]) -> JsonObject:
        return self._object(self._send("GET", "/deliveries", params=filters))

    def replay(self, source: str, delivery: str, *, again: bool) -> JsonObject:
        body = {"source": source, "delivery": delivery, "again": again}
        return self._object(self._send("POST", "/deliveries:replay", json=body))

    def deliver(self, source: str, query: str, content: bytes, headers: Mapping[str, str]) -> JsonObject:
        """Sends a signed webhook; returns the id of its event or run, or the answered challenge.

        `duplicate` and `ignored` are present if true.
        """
        path = f"/webhooks/{_part(source)}" + (f"?{query}" if query else "")
        answer = self._send("POST", path, content=content, headers=headers)
        if answer.headers.get("content-type", "").startswith("application/json"):
            return self._object(answer)
        made = {
            what: unquote(answer.headers[header]) for what, header in ID_HEADERS.items() if header in answer.headers
        }
        return {**made, **{mark: True for mark, header in MARK_HEADERS.items() if header in answer.headers}}

    def stats(self) -> JsonObject:
        return self._object(self._send("GET", "/stats"))

    def schedules(self) -> JsonObject:
        return self._object(self._send("GET", "/schedules"))

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._checked(self._http_send(method, path, **more))

    def _http_send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time", hint=self._hint()) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"cannot reach {self.url}: {error}", hint=self._hint()) from error

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        try:
            problem = answer.json()
        except ValueError:
            problem = None
        if isinstance(problem, dict) and ("title" in problem or "detail" in problem):
            raise ApiProblem(answer.status_code, problem)
        if isinstance(problem, dict) and "message" in problem and answer.status_code in GATEWAY_REFUSES:
            raise gateway_refusal(answer.status_code, problem, self._caller)
        raise self._stranger(answer)

    def _object(self, answer: httpx.Response) -> JsonObject:
        try:
            value = answer.json()
        except ValueError as error:
            raise self._stranger(answer) from error
        if not isinstance(value, dict):
            raise self._stranger(answer)
        return value

    def _stranger(self, answer: httpx.Response) -> Unreachable:
        path = answer.request.url.path
        message = f"the server at {self.url} is not a Stepwell API: it answered {answer.status_code} to {path}"
        return Unreachable(message, code="not_stepwell", hint="check --url or STEPWELL_URL")

    def _hint(self) -> str:
        return "start it with: stepwell dev" if self.local else "check --url or STEPWELL_URL"


def _part(text: str) -> str:
    """Quotes a name as one path segment. A name of dots only would otherwise change the path."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if not text.strip(".") else quoted

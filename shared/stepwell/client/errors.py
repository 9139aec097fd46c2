"""The errors of a call: a refusal by the API (one class per kind, one code per reason), and no answer at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from stepwell.errors import StepwellError

JsonObject: TypeAlias = dict[str, Any]


class ApiProblem(StepwellError):
    """The API refused the call. `code` is stable, for programs; `problem` is the whole problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        kind = str(problem.get("type") or "")
        code = str(problem.get("code") or kind.rpartition(":")[2] or f"http_{status}")
        self.title = str(problem.get("title") or "")
        message = str(problem.get("detail") or self.title or f"the API answered {status}")
        super().__init__(message, code=code, hint=problem.get("hint"))
        self.status = status
        self.problem = problem

    @property
    def errors(self) -> list[tuple[str, str]]:
        """(path, message) of each mistake in the request."""
        found = self.problem.get("errors")
        listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        return [(str(one.get("path") or ""), str(one.get("message") or "")) for one in listed]


class InputProblem(ApiProblem):
    """The request is wrong: 400, 413 or 422. `errors` lists each mistake."""


class AccessProblem(ApiProblem):
    """The caller has no credentials, or they do not allow the call: 401 or 403."""


class NotFoundProblem(ApiProblem):
    """There is no such run, workflow, branch, query or route: 404."""


class ConflictProblem(ApiProblem):
    """The run's state does not allow the call, or its key was used with another body: 409."""


class BusyProblem(ApiProblem):
    """There are too many calls, or too many pending events: 429, also after the retries."""


class ServerProblem(ApiProblem):
    """The API failed, also after the retries: 5xx."""


class RunFailed(ApiProblem):
    """The run ended without a result. `run_status`: failed, cancelled, timed_out or compensated."""

    @property
    def run_id(self) -> str:
        return str(self.problem.get("run_id") or "")

    @property
    def run_status(self) -> str:
        return str(self.problem.get("run_status") or "")

    @property
    def error(self) -> Mapping[str, Any]:
        """The run's error: `type`, `message`, `category`, `step`, `attempts`; empty if it has none."""
        return self.problem.get("error") or {}


class UpdateFailed(StepwellError):
    """An update failed: its handler raised, or was not called. `type` names the error."""

    code = "update_failed"

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.error, self.type = error, error["type"]


class Unreachable(StepwellError):
    """No server answered at the URL, or the server is not a Stepwell API."""

    code = "unreachable"


_BY_STATUS: Mapping[int, type[ApiProblem]] = {
    400: InputProblem,
    401: AccessProblem,
    403: AccessProblem,
    404: NotFoundProblem,
    409: ConflictProblem,
    413: InputProblem,
    422: InputProblem,
    429: BusyProblem,
}


def problem_of(status: int, problem: Mapping[str, Any]) -> ApiProblem:
    """Returns the exception for a problem document."""
    if "run_status" in problem:
        return RunFailed(status, problem)
    return _BY_STATUS.get(status, ServerProblem if status >= 500 else ApiProblem)(status, problem)

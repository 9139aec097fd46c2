"""The errors between the command line and the API, apart from the client, which is slow to import."""

from __future__ import annotations

from typing import Any, TypeAlias

from stepwell.errors import StepwellError

JsonObject: TypeAlias = dict[str, Any]


class ApiProblem(StepwellError):
    """The API refused: `problem` is its problem document."""

    def __init__(self, status: int, problem: JsonObject) -> None:
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


class Unreachable(StepwellError):
    """No server answered at the URL, or the server is not a Stepwell API."""

    code = "unreachable"

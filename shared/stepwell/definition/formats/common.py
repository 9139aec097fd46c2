"""Shared by the compilers of all formats: the list of problems, expressions, durations, steps and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from stepwell.definition.called import Called
from stepwell.definition.categories import doubtful_category
from stepwell.definition.clauses.computed import Computed, attempt_seconds, is_template
from stepwell.definition.clauses.http_steps import check_lambda, check_not_http, empty_input, http_of
from stepwell.definition.compiled import Collection, Expression, Schema
from stepwell.definition.durations import long_step, parse_duration
from stepwell.definition.expressions import (
    compile_expression,
    compile_template,
    members_read,
    state_read,
    steps_read,
    template_errors,
)
from stepwell.definition.graph import END, Json, Retry, Step
from stepwell.definition.states_language import resource_hint
from stepwell.definition.text import NAME, NAME_HINT
from stepwell.errors import DefinitionError, ExpressionError, Problem, UserError
from stepwell.limits import NAME_CHARACTERS, YEAR_MS

_PYTHON = re.compile(r"python:[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_SCHEMES = {
    "workflow": "a child run in this place",
} | {
    "agent": "a registered agent",
    "action": "a registered action",
}
MODES = ("auto", "manual")
_NO_TEMPLATE = {
    "event": "write a fixed name, and put what differs from run to run into `key`",
    "workflow": "write a fixed name, and choose between several with `when` in a rule to each",
}


E = TypeVar("E", bound=Expression)


class Context:
    """One compilation: collects problems, and the names that expressions read."""

    def __init__(self, *, trusted: bool = False) -> None:
        self.trusted = trusted  # whether names and kinds of steps were checked before
        self.problems: list[Problem] = []
        self.steps_read: list[tuple[str, str]] = []  # a node's name, and the place that reads it
        self.branch_read: list[str] = []  # the places that read `branch`
        self.event_read: list[str] = []  # the places that read `event`
        self.state_read: list[tuple[str, str]] = []  # a name in `state`, and the place that reads it
        self.members_read: list[tuple[tuple[str, ...], str]] = []  # as `members_read` tells them, and the place
        self.called: list[Called] = []
        self.inputs: frozenset[str] = frozenset()  # the names that `input_schema` has
        self.places: dict[str, str] = {}  # of nodes, where the format's own keys do not tell it: their JSON pointers
        self.default_retry: Retry | None = None  # of steps without a policy
        self.variables = False  # whether names that expressions do not have are variables, and results become some
        self.windows: dict[str, int] = {}  # by what is run: how long the conversation gets that its message joins

    def add(self, code: str, message: str, path: str, hint: str = "", severity: str = "error") -> None:
        self.problems.append(Problem(code, message, path, hint, severity=severity))

    def add_error(self, error: UserError | ExpressionError, path: str) -> None:
        hint, name = error.hint or "", error.message.removeprefix("unknown name ").strip("`")
        is_input = error.code == "unknown_name" and name in self.inputs
        self.add(
            error.code, error.message, path, f"write input.{name}: it is a name of the input" if is_input else hint
        )

    @property
    def failed(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    def condition(self, data: Mapping[str, Json], key: str, path: str, *, variables: bool = False) -> Collection | None:
        """Compiles the CEL condition under `key`, which may also be true or false."""
        value = data.get(key)
        if value is None:
            return None
        text = value if isinstance(value, str) else str(value).lower()
        try:
            return self.seen(compile_expression(text, variables=variables), f"{path}/{key}")
        except ExpressionError as error:
            self.add_error(error, f"{path}/{key}")
            return None

    def template(self, data: Mapping[str, Json], key: str, path: str) -> Expression | None:
        return self.template_of(data[key], f"{path}/{key}") if key in data else None

    def template_of(self, value: Json, path: str) -> Expression | None:
        try:
            return self.seen(compile_template(value, variables=self.variables), path)
        except ExpressionError:
            for place, error in template_errors(value, path, variables=self.variables):
                self.add_error(error, place)
            return None

    def computed(
        self, data: Mapping[str, Json], key: str, path: str, name: str, checked: Callable[[Json], Json]
    ) -> Computed | None:
        """Compiles a limit that is a template; None for any other. The engine reads its value under this name."""
        template = self.template(data, key, path) if is_template(data.get(key)) else None
        return None if template is None else Computed(template, name, checked)

    def duration_ms(self, data: Mapping[str, Json], key: str, path: str) -> int | None:
        if key not in data:
            return None
        try:
            return parse_duration(data[key])
        except UserError as error:
            self.add_error(error, f"{path}/{key}")
            return None

    def limit_ms(self, data: Mapping[str, Json], key: str, path: str) -> int | None:
        """Compiles a time limit, which is longer than 0. A definition that is deployed already keeps the one it has."""
        limit_ms = self.duration_ms(data, key, path)
        if limit_ms == 0 and not self.trusted:
            self.add("bad_value", f"`{key}` must be longer than 0", f"{path}/{key}", f"for example {key}: 5m")
        return limit_ms

    def schema(self, document: Mapping[str, Json], key: str) -> Schema | None:
        if key not in document:
            return None
        from stepwell.definition.schemas import compile_schema  # noqa: PLC0415 - most workflows have no schema

        try:
            return compile_schema(document[key])
        except DefinitionError as error:
            self.add_error(error, f"/{key}")
            return None

    def seen(self, expression: E, path: str) -> E:
        """Records the names that the expression reads."""
        self.steps_read += [(name, path) for name in sorted(steps_read(expression))]
        self.branch_read += [path] if "branch" in expression.names else []
        self.event_read += [path] if "event" in expression.names else []
        self.state_read += [(name, path) for name in sorted(state_read(expression))]
        self.members_read += [(member, path) for member in sorted(members_read(expression))]
        return expression


def check_name(context: Context, name: str, path: str, what: str) -> bool:
    """Checks a name of a workflow, node or event, which becomes part of keys, paths and URLs."""
    if len(name) > NAME_CHARACTERS:
        context.add("bad_name", f"the {what} name has {len(name)} characters", path, f"at most {NAME_CHARACTERS}")
    elif name == END and what == "node":
        context.add("reserved_name", f"`{END}` is reserved for the end of the run", path, "choose another name")
    elif not NAME.fullmatch(name) or ".." in name:
        hint = _NO_TEMPLATE.get(what, f"a name has no template; {NAME_HINT}") if "{{" in name else NAME_HINT
        context.add("bad_name", f"the {what} name cannot be {name!r}", path, hint)
    else:
        return True
    return False


def check_start(context: Context, document: Mapping[str, Json], hint: str) -> None:
    """Checks `start` in the formats whose order determines where a run starts."""
    if "start" in document and document["start"] not in MODES:
        context.add("bad_value", f"`start` cannot be {document['start']!r}", "/start", hint)


def step_of(context: Context, data: Mapping[str, Json], path: str) -> Step | None:
    """Compiles the step of a node or a timeout action; None if there is none or it has errors."""
    if "run" not in data:
        return None
    if not context.trusted:
        _check_run(context, data["run"], f"{path}/run")
    if "pool" in data:
        check_name(context, data["pool"], f"{path}/pool", "pool")
    is_http = data["run"].startswith("http:")
    if not is_http:
        check_not_http(context, data, path)
    return Step(
        run=data["run"],
        input=empty_input() if is_http and "input" not in data else context.template(data, "input", path),
        action=context.template(data, "action", path),
        output=context.template(data, "output", path),
        timeout_ms=None if is_template(data.get("timeout")) else _timeout_ms(context, data, path),
        retry=retry_of(context, data["retry"], f"{path}/retry") if "retry" in data else None,
        at_most_once=data.get("at_most_once"),
        pool=data.get("pool"),
        on_failure=data.get("on_failure", "abort"),
        default_retry=context.default_retry,
        http=http_of(context, data, path) if is_http else None,
        writes="keys" if context.variables else "result",
        window=context.windows.get(data["run"]),
        limits=context.computed(data, "timeout", path, "timeout", attempt_seconds),
    )


def _timeout_ms(context: Context, data: Mapping[str, Json], path: str) -> int | None:
    timeout_ms = context.limit_ms(data, "timeout", path)
    if timeout_ms is not None and timeout_ms > YEAR_MS:
        message, hint = long_step(timeout_ms)
        context.add("timeout_too_long", message, f"{path}/timeout", hint)
    return timeout_ms


def retry_of(context: Context, data: Mapping[str, Json], path: str) -> Retry:
    """Compiles a retry policy; missing keys get the documented defaults."""
    given = {key: data[key] for key in ("max_retries", "backoff", "jitter") if key in data}
    for key in ("initial_delay", "max_delay"):
        if (delay_ms := context.duration_ms(data, key, path)) is not None:
            given[f"{key}_ms"] = delay_ms
    if "on" in data:
        given["on"] = frozenset(name for name in data["on"] if name is not None)
        _check_categories(context, data["on"], f"{path}/on")
    policy = Retry(**given)
    if policy.max_delay_ms >= policy.initial_delay_ms:
        return policy
    if "max_delay_ms" in given:
        context.add("bad_retry", "`max_delay` is shorter than `initial_delay`", path, "`max_delay` caps every delay")
    # The default maximum must not shorten a delay that the user wrote.
    return replace(policy, max_delay_ms=policy.initial_delay_ms)


def _check_categories(context: Context, names: Sequence[str | None], path: str) -> None:
    for index, name in enumerate(names):
        if name is not None and (problem := doubtful_category(name, f"{path}/{index}")):
            context.problems.append(problem)


def _check_run(context: Context, run: str, path: str) -> None:
    scheme, colon, _ = run.partition(":")
    if colon and scheme in _SCHEMES:
        hint = "write a Python function instead, run: python:module.function"
        context.add(
            "unsupported", f"{_SCHEMES[scheme]} (`run: {scheme}:…`) is not supported in this version", path, hint
        )
    elif colon and scheme == "lambda":
        check_lambda(context, run, path)
    elif colon and scheme == "python":
        if not _PYTHON.fullmatch(run):
            context.add("bad_run", f"`{run[:80]}` does not name a function", path, "write python:module.function")
    elif colon and scheme != "http":  # http_of checks that scheme
        hints = {"https": "write http:GET and the URL", "arn": resource_hint(run)}
        hint = hints.get(scheme, "write python:module.function")
        context.add("bad_run", f"`{scheme[:40]}:` is not a kind of step", path, hint)
    elif not colon and (not NAME.fullmatch(run) or len(run) > NAME_CHARACTERS):
        hint = "write python:module.function, or the name given by @step(name=…)"
        context.add("bad_run", f"`{run[:80]}` cannot be a step", path, hint)

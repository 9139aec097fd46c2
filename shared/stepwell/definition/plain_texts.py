"""Warns of text that means something in another language, such as Step Functions': here it is plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.definition.expressions import NAMES
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.patterns import lazy
from stepwell.definition.text import pointer_part

_PLACEHOLDER = lazy(rf"\$\{{\{{?(\s*(?:{'|'.join(map(re.escape, NAMES))})\b[^{{}}]*)\}}\}}?")
_PATH = lazy(r"\$\$?(?:\.[A-Za-z_]|\.\.|\[)\S*")  # JSONPath, as `$.order.id` or `$$.Execution.Id`
_NAMES = lazy(r"\$(?:\.[A-Za-z_]\w*)*")  # a path that reads the same after `input`
_BARE = lazy(  # a whole text such as `input.order.id`, also in one pair of braces; the name of a file is none
    r"\{?\s*((?:input|state|steps|result|event|branch|run)(?:\.[A-Za-z_]\w*|\[\d+\]|\['[^']*'\])+)\s*\}?"
    r"(?<!\.csv)(?<!\.json)(?<!\.jsonl)(?<!\.log)(?<!\.txt)(?<!\.xml)(?<!\.yaml)(?<!\.pdf)(?<!\.html)(?<!\.parquet)(?<!\.py)"
)
_ERROR = lazy(
    r"(?<![\w.])(?:States\.[A-Z]\w+|Sandbox\.Timedout|Lambda\.(?:ServiceException|AWSLambdaException|SdkClientException"
    r"|TooManyRequestsException|ClientExecutionTimeoutException))(?![\w.])"
)
_NO_TEMPLATES = frozenset({"workflow", "description", "input_schema", "output_schema", "state_schema"})
_TEMPLATES = frozenset({"input", "output", "key", "lock", "data"})  # whose text would be a template
_OF_USERS = frozenset({"input", "output", "data"})  # whose keys are a user's own
_TIMEOUT = "the category of time-outs is timeout"
_CATEGORIES = "the categories of errors are transient, step, timeout, external and worker_lost"
_MEANS = {
    "States.ALL": _CATEGORIES,
    "States.TaskFailed": "name the categories: transient, step, external and worker_lost",
    **dict.fromkeys(("States.Timeout", "States.HeartbeatTimeout", "Sandbox.Timedout"), _TIMEOUT),
}
_OF_LAMBDA = "the category of throttling and of Lambda's faults is transient, which every policy retries"


def lint_texts(context: Context, document: Mapping[str, Json]) -> None:
    """Warns of `${input.x}`, `input.x`, paths and expressions of Step Functions, and of the names of its errors."""
    for key, value in document.items():
        if key not in _NO_TEMPLATES:
            _lint(context, key, value, f"/{pointer_part(key)}", own=True)


def _lint(context: Context, key: str, value: Json, path: str, own: bool) -> None:
    """Looks through a value. `own`: whether `key` is one of a definition's, not of a user's data."""
    if isinstance(value, str):
        if "$" in value or "States." in value or "Lambda." in value or "Sandbox." in value:
            _lint_text(context, key, value, path, own)
        elif (key in _TEMPLATES or not own) and (found := _BARE.fullmatch(value)) is not None:
            _warn(context, value, path, f"write {{{{ {found[1]} }}}}")
    elif isinstance(value, dict):
        own = own and key not in _OF_USERS
        for name, item in value.items():
            _lint(context, name, item, f"{path}/{pointer_part(name)}", own)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _lint(context, key, item, f"{path}/{at}", own)


def _lint_text(context: Context, key: str, text: str, path: str, own: bool) -> None:
    if own and key in ("on", "when"):
        _lint_errors(context, text, path)
    if (found := _PLACEHOLDER.search(text)) is not None:
        _warn(context, found[0], path, f"write {{{{ {found[1].strip()} }}}}")
    elif (hint := _as_template(key, text, own)) is not None:
        _warn(context, text[:80], path, hint)


def _warn(context: Context, text: str, path: str, hint: str) -> None:
    context.add("not_a_template", f"`{text}` is plain text, because it is no template", path, hint, severity="warning")


def _lint_errors(context: Context, text: str, path: str) -> None:
    for name in dict.fromkeys(_ERROR.findall(text)):
        hint = _MEANS.get(name) or (_OF_LAMBDA if name.startswith("Lambda.") else _CATEGORIES)
        message = f"`{name}` is an error name of Step Functions, which no error has here"
        context.add("foreign_error_name", message, path, hint, severity="warning")


def _as_template(key: str, text: str, own: bool) -> str | None:
    """Returns how to write a path or an expression of Step Functions; None for other text."""
    name = f"{key.removesuffix('.$')}: " if key.endswith(".$") and text.startswith(("$", "States.")) else ""
    if name or (own and key in _TEMPLATES and _PATH.fullmatch(text)):
        if _NAMES.fullmatch(text):
            return f"write {name}{{{{ input{text[1:]} }}}}, or state in place of input for a step's result"
    elif not _is_jsonata(text):
        return None
    return f"write {name}{{{{ … }}}} with an expression, which reads input, state, steps, run and now"


def _is_jsonata(text: str) -> bool:
    """Returns whether a text is a single expression with a variable: a page's template may have several blocks."""
    return text.startswith("{%") and text.endswith("%}") and "$" in text and text.count("%}") == 1

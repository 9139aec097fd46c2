"""Parses and checks a `webhooks.yaml`: its content as plain data, and every mistake with its place.

`stepwell.api.webhooks.sources` and `stepwell.runtime.notify.endpoints` read the checked data, without YAML and checks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from stepwell.definition.durations import parse_duration, show_duration
from stepwell.definition.endpoints import check_endpoints
from stepwell.definition.expressions import compile_expression
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.secret_references import check_secrets
from stepwell.definition.text import NAME, NAME_HINT, closest, pointer_part
from stepwell.definition.webhook_schemes import HMAC, HMAC_KEYS, NONE, SCHEME_NAMES, URL_SCHEMES
from stepwell.errors import ExpressionError, Problem, UserError
from stepwell.limits import DELIVERY_KEPT_MAX_MS, NAME_CHARACTERS
from stepwell.values import dataclass

FILES = ("webhooks.yaml", "webhooks.yml")
EXPRESSION_NAMES = ("body", "headers", "query")
EXPRESSIONS = ("match", "event", "key", "payload", "input", "id")
_SECTIONS = ("sources", "out")
_WITH_EVENT, _WITH_WORKFLOW = ("event", "key", "payload"), ("workflow", "input")
_KEYS = ("scheme", "secret", "id", "match", "keep", *_WITH_EVENT, *_WITH_WORKFLOW)
_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_EXAMPLE = "sources: {shop: {scheme: standard-webhooks, secret: env:SHOP_SECRET, event: body.type}}"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """A file's problems and, without errors, its data: `{"sources": {name: {…}}, "out": {name: {…}}}`."""

    document: Mapping[str, Json] | None
    problems: tuple[Problem, ...]


def check_webhooks(
    text: str, file: str = "", workflows: Collection[str] | None = None, types: Collection[str] = ()
) -> Webhooks:
    """Checks a file; never raises. `workflows` are the known names (None: any), `types` the event types for `out:`."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    loaded = load_document(text, file)
    if loaded.problems:
        return Webhooks(None, tuple(_of_webhooks(problem) for problem in loaded.problems))
    context = Context()
    sources = _sources(context, loaded.data)
    made = {name: _source(context, name, given, workflows) for name, given in sources.items()}
    given = loaded.data.get("out", {}) if isinstance(loaded.data, dict) else {}
    out = check_endpoints(context, given, types, workflows)
    problems = tuple(_placed(loaded.placed(problem, file)) for problem in context.problems)
    return Webhooks(None if context.failed else {"sources": made, "out": out}, problems)


def _of_webhooks(problem: Problem) -> Problem:
    """Adapts the loader's message, which is about definitions."""
    if problem.code != "empty_definition":
        return problem
    return replace(problem, message="the file is empty", hint=f"write {_EXAMPLE}, or remove the file")


def _placed(problem: Problem) -> Problem:
    """Removes the place of a bad secret reference, whose line may contain the secret itself."""
    return replace(problem, line=0, column=0) if problem.code == "bad_secret" else problem


def _sources(context: Context, data: Json) -> Mapping[str, Json]:
    found = data.get("sources", {} if "out" in data else None) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        context.add("wrong_type", "the file must be a mapping with `sources` or `out`", "", _EXAMPLE)
        return {}
    for key in data.keys() - set(_SECTIONS):
        context.add("unknown_key", f"unknown key `{key}`", f"/{pointer_part(key)}", closest(key, _SECTIONS))
    return found


def _source(context: Context, name: str, given: Json, workflows: Collection[str] | None) -> Mapping[str, Json]:
    path = f"/sources/{pointer_part(name)}"
    if not NAME.fullmatch(name) or ".." in name or len(name) > NAME_CHARACTERS:
        context.add("bad_name", f"{name[:80]!r} cannot be the name of a source", path, NAME_HINT)
    if not isinstance(given, dict):
        context.add("wrong_type", f"the source `{name}` must be a mapping", path, _EXAMPLE)
        return {}
    _check_keys(context, name, given, path)
    _check_scheme(context, name, given, path)
    _check_aim(context, name, given, path, workflows)
    for key in EXPRESSIONS:
        if key in given:
            _check_expression(context, key, given[key], f"{path}/{key}")
    _check_keep(context, given, path)
    return {**given, "secret": _secrets(context, name, given, path)}


def _check_keys(context: Context, name: str, given: Mapping[str, Json], path: str) -> None:
    scheme = given.get("scheme")
    signs_url = isinstance(scheme, str) and scheme in URL_SCHEMES
    known = (*_KEYS, *(HMAC_KEYS if scheme == HMAC else ()), *(("url",) if signs_url else ()))
    for key in given:
        place = f"{path}/{pointer_part(key)}"
        if key in known:
            continue
        if key in HMAC_KEYS or key == "url":
            those = ", ".join(sorted(URL_SCHEMES)) if key == "url" else HMAC
            context.add("misplaced_key", f"`{key}` is for the scheme {those}, which `{name}` does not have", place)
        else:
            context.add("unknown_key", f"unknown key `{key}`", place, closest(key, known))


def _check_scheme(context: Context, name: str, given: Mapping[str, Json], path: str) -> None:
    scheme = given.get("scheme")
    if scheme is None:
        context.add("missing_key", f"the source `{name}` has no `scheme`", path, _schemes_there_are())
    elif scheme not in SCHEME_NAMES:
        context.add("unknown_scheme", f"unknown scheme {str(scheme)[:80]!r}", f"{path}/scheme", _schemes_there_are())
    elif scheme == HMAC:
        _check_hmac(context, name, given, path)
    elif scheme in URL_SCHEMES and "url" in given:
        url = given["url"]
        if not isinstance(url, str) or not _URL.fullmatch(url):
            hint = "as the sender calls it, without a query: url: https://hooks.example.com/webhooks/sms"
            context.add("bad_value", "`url` must be the URL of this source", f"{path}/url", hint)


def _schemes_there_are() -> str:
    return f"the schemes are {', '.join(SCHEME_NAMES)}"


def _check_hmac(context: Context, name: str, given: Mapping[str, Json], path: str) -> None:
    header = given.get("header")
    if header is None:
        hint = "name the header that holds the signature: header: X-Signature"
        context.add("missing_key", f"the source `{name}` has no `header`", path, hint)
    elif not isinstance(header, str) or not _HEADER.fullmatch(header):
        context.add("bad_value", "`header` must be the name of a header", f"{path}/header", "header: X-Signature")
    for key, words in HMAC_KEYS.items():
        value = given.get(key, "")
        if key in given and words is not None and value not in words:
            context.add("bad_value", f"`{key}` must be {', '.join(words)}", f"{path}/{key}")
        elif not isinstance(value, str) or (key == "prefix" and " " in value):
            context.add("bad_value", f"`{key}` must be text without spaces", f"{path}/{key}")


def _check_aim(
    context: Context, name: str, given: Mapping[str, Json], path: str, workflows: Collection[str] | None
) -> None:
    """Checks that a source has an event or a workflow, and only the keys of that one."""
    if "event" in given and "workflow" in given:
        context.add("conflict", f"`{name}` has event and workflow", f"{path}/workflow", "make it two sources")
    elif "event" not in given and "workflow" not in given:
        hint = "write event: body.type, or workflow: and the name of the one to start"
        context.add("missing_key", f"the source `{name}` has no `event`", path, hint)
    else:
        own, other = ("event", _WITH_WORKFLOW) if "event" in given else ("workflow", _WITH_EVENT)
        for key in other:
            if key in given:
                context.add("misplaced_key", f"`{key}` has no effect beside `{own}`", f"{path}/{key}", "remove it")
    workflow = given.get("workflow", "")
    if not isinstance(workflow, str):
        context.add("wrong_type", "`workflow` must be the name of a workflow", f"{path}/workflow")
    elif "workflow" in given and workflows is not None and workflow not in workflows:
        hint = closest(workflow, workflows)
        context.add("unknown_workflow", f"there is no workflow {workflow[:80]!r}", f"{path}/workflow", hint)


def _check_keep(context: Context, given: Mapping[str, Json], path: str) -> None:
    if "keep" not in given:
        return
    try:
        keep_ms = parse_duration(given["keep"])
    except UserError as error:
        context.add(error.code, f"`keep`: {error.message}", f"{path}/keep", error.hint or "")
        return
    if not 0 < keep_ms <= DELIVERY_KEPT_MAX_MS:
        longest = show_duration(DELIVERY_KEPT_MAX_MS)
        context.add("bad_value", f"`keep` must be more than 0 and at most {longest}", f"{path}/keep", "keep: 7d")


def _check_expression(context: Context, key: str, text: Json, path: str) -> None:
    if not isinstance(text, str):
        context.add("wrong_type", f"`{key}` must be a CEL expression", path, f"over {', '.join(EXPRESSION_NAMES)}")
        return
    try:
        compile_expression(text, EXPRESSION_NAMES)
    except ExpressionError as error:
        fixed = "; quote fixed text: \"'paid'\"" if error.code == "unknown_name" else ""
        context.add(error.code, error.message, path, (error.hint or "") + fixed)


def _secrets(context: Context, name: str, given: Mapping[str, Json], path: str) -> list[Json]:
    if given.get("scheme") == NONE:
        return _no_secrets(context, name, given, path)
    return check_secrets(context, f"the source `{name}`", given, path)


def _no_secrets(context: Context, name: str, given: Mapping[str, Json], path: str) -> list[Json]:
    """Checks a source without a signature, which must be declared twice."""
    if given.get("secret") == NONE:
        hint = "anybody with the URL can send anything; use a signature or a password"
        context.add("unsigned_source", f"anybody can send to `{name}`", f"{path}/scheme", hint, "warning")
    else:
        hint = "to allow this, write both scheme: none and secret: none"
        context.add("unsigned_source", f"no signature or password protects `{name}`", f"{path}/scheme", hint)
    return []

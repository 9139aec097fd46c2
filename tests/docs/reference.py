"""The generated blocks of docs/reference: the API, errors, limits, and the construct's properties."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from stepwell import limits as values
from stepwell.api.openapi import document
from stepwell.api.routes import ROUTES
from stepwell.definition.durations import show_duration
from tests.docs import errors
from tests.docs.tables import table

CODE = Path(__file__).resolve().parents[2] / "shared" / "stepwell"
_LIMIT = re.compile(r"^(?P<name>[A-Z_]+) = [^#\n]*(?:# (?P<says>.*))?$")
_ERROR = re.compile(r":? ?`([a-z_]+)`$")
_UNITS = {"BYTES": " bytes", "CHARACTERS": " characters", "SECONDS": " s"}


@cache
def _api() -> Mapping[str, Any]:
    return document(ROUTES, "")


def routes() -> str:
    """Every route of the API."""
    rows = [
        [f"[`{method.upper()} {path}`](#{_anchor(method, path)})", operation["summary"]]
        for path, method, operation in _operations()
    ]
    return table(["call", "does"], rows)


def calls() -> str:
    """Each route with its parameters, its body and its answers."""
    return "\n".join(_call(path, method, operation) for path, method, operation in _operations()).rstrip()


def refusals() -> str:
    """What the API and the command line refuse."""
    rows = [[f"`{one.code}`", one.kind, _says(one)] for one in errors.told() if one.place == "call"]
    return table(["code", "status", "says, and what to do"], rows)


def faults() -> str:
    """What is nobody's mistake: a service that does not answer, or a defect."""
    rows = [[f"`{one.code}`", one.kind, _says(one)] for one in errors.told() if one.place == "fault"]
    return table(["code", "status", "says, and what to do"], rows)


def failures() -> str:
    """The errors that Stepwell itself gives to a run."""
    rows = [
        [f"`{one.code}`", f"`{one.kind}`" if one.kind else "", _says(one)]
        for one in errors.told()
        if one.place == "run"
    ]
    return table(["type", "category", "says"], rows)


def findings() -> str:
    """What `stepwell check` finds in a folder."""
    rows = [[f"`{one.code}`", _says(one)] for one in errors.told() if one.place == "file"]
    return table(["code", "says, and what to do"], rows)


def limits() -> str:
    """Every limit, in sections as in its module."""
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in [*(CODE / "limits.py").read_text(encoding="utf-8").splitlines(), "# End"]:
        found = _LIMIT.match(line)
        if found and found["says"]:
            rows.append(_limit(found["name"], found["says"]))
        elif re.match(r"# [A-Z][^.]*$", line):
            if rows:
                lines += [table(["limit", "value", "of what", "error beyond it"], rows), ""]
            rows = []
            lines += [f"## {line[2:]}", ""]
    return "\n".join(lines[:-2]).rstrip()


def engine() -> str:
    """The properties of the construct."""
    return _properties("EngineProps")


def pool() -> str:
    """The properties of a pool."""
    return _properties("Pool")


def _operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in _api()["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _anchor(method: str, path: str) -> str:
    """Returns the anchor that GitHub and the site give to a heading `GET /runs/{id}`."""
    return re.sub(r"[^\w -]", "", f"{method} {path}".lower()).replace(" ", "-")


def _call(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = [[f"`{one['name']}`", one["in"], _cell(_described(one))] for one in operation["parameters"]]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if name := body.get("$ref", "").rpartition("/")[2]:
        fields = _api()["components"]["schemas"][name]
        needed = fields.get("required", [])
        rows += [
            [f"`{field}`", "body" + (", required" if field in needed else ""), _cell(_described({"schema": schema}))]
            for field, schema in fields.get("properties", {}).items()
        ]
    answers = ", ".join(f"{status}: {_cell(one['description'])}" for status, one in operation["responses"].items())
    parts = [f"## {method.upper()} {path}", f"{operation['summary']}.", table(["name", "in", "meaning"], rows)]
    return "\n\n".join([*(parts if rows else parts[:2]), f"Answers: {answers}.", ""])


def _described(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    says = parameter.get("description") or schema.get("description", "")
    options = [one for one in schema.get("enum") or schema.get("items", {}).get("enum") or [] if one is not None]
    kinds = [one.get("type") for one in (schema, *schema.get("anyOf", []))]
    each = [kind for given in kinds for kind in (given if isinstance(given, list) else [given])]
    named = [kind for kind in each if kind not in (None, "null")]
    kind = " or ".join(f"`{one}`" for one in options) or " or ".join(named)
    return ": ".join(part for part in (kind, says) if part)


def _says(one: errors.Told) -> str:
    return _cell("; ".join(part.removesuffix(".") for part in (one.message, one.hint) if part))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _limit(name: str, says: str) -> list[str]:
    value = getattr(values, name)
    times = value if isinstance(value, tuple) else (value,)
    shown = ", ".join(map(show_duration, times)) if name.endswith("_MS") else _number(name, value)
    error = _ERROR.search(says)
    words = re.sub(r"_(MS|BYTES|CHARACTERS|SECONDS)$", "", name.replace("_PER_SECOND", " a second"))
    return [words.lower().replace("_", " "), shown, _cell(_ERROR.sub("", says)), f"`{error[1]}`" if error else ""]


def _number(name: str, value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}{_UNITS.get(name.rpartition('_')[2], '')}"
    return ", ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)


def _properties(name: str) -> str:
    """Reads a class of props.py without importing it: the CDK takes seconds."""
    tree = ast.parse((CODE / "cdk" / "props.py").read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    says = _said(ast.get_docstring(found) or "")
    rows = [
        [f"`{node.target.id}`", _default(node.value), says.get(node.target.id, "")]
        for node in found.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return table(["property", "default", "meaning"], rows)


def _default(value: ast.expr | None) -> str:
    if value is None:
        return "required"
    text = ast.unparse(value)
    known = {"''": "", "()": "", "None": "", "field(default_factory=dict)": "", "MAX_STEPS": f"`{values.RUN_STEPS}`",
             "AWS_CLIENTS[0]": "`'thin'`", "cdk.RemovalPolicy.RETAIN": "`RETAIN`",
             "logs.RetentionDays.ONE_MONTH": "`ONE_MONTH`"}  # fmt: skip
    if text.startswith("field("):
        return known.get(text, "one pool, `default`")
    return known.get(text, f"`{text}`")


def _said(docstring: str) -> dict[str, str]:
    """Returns what a docstring says of each name: `name: text`, or `one, other: text`, with indented lines after it."""
    said: dict[str, str] = {}
    for entry in re.split(r"\n(?=[a-z_]+(?:, [a-z_]+)*: )", docstring):
        names, _, text = entry.partition(": ")
        if re.fullmatch(r"[a-z_]+(?:, [a-z_]+)*", names):
            said |= dict.fromkeys(names.split(", "), _cell(text))
    return said

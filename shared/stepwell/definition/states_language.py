"""Amazon States Language: recognizes its files and documents, to refuse them, and the `Resource` of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath

from stepwell.definition.graph import Json
from stepwell.definition.text import pointer_part
from stepwell.errors import Problem

_FIELDS = ("States", "StartAt")  # each machine has both, at its top
_ENDINGS = (".asl.json", ".asl.yaml", ".asl.yml")


def is_named_as_machine(file: str) -> bool:
    return file.endswith(_ENDINGS)


def is_machine(keys: Collection[str]) -> bool:
    """Returns whether a file with these keys is a state machine for sure: either key may be one of a user's data."""
    return all(name in keys for name in _FIELDS)


def machine_in(body: Mapping[str, Json], formats: Collection[str]) -> str | None:
    """Returns the JSON pointer of a state machine's own key; None if there is none, or one of our formats too."""
    written = next((name for name in _FIELDS if name in body), None)
    return None if written is None or any(name in body for name in formats) else f"/{pointer_part(written)}"


def refused(path: str, workflow: str | None = None) -> Problem:
    message = "Amazon States Language is not supported yet"
    hint = "translate it as docs/coming-from/step-functions.md shows, or move it out of the workflow folder"
    return Problem("unsupported_format", message, path, hint, workflow=workflow or "")


def named_by(file: str) -> str | None:
    """Returns the name of a workflow that a file is named by: `order` by `order.yaml` and by `order.asl.json`."""
    name = PurePath(file).stem
    return (name.removesuffix(".asl") if is_named_as_machine(file) else name) or None


def resource_hint(arn: str) -> str:
    """Returns what to write in `run` in place of a task's `Resource`."""
    if ":states:::lambda:invoke" in arn:
        return "write lambda: and the function's name"
    if ":states:::states:startExecution" in arn:
        return "write workflow: and the workflow's name"
    if ":lambda:" in arn:
        return "write lambda: before it"
    return "call the service in a Python function, with boto3; docs/callbacks.md is for those with a task token"

"""Checks the folder's `resources.yaml`: what runs in place of a state machine's resources, and its substitutions."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.side_files import SideFile, check_side_file
from stepwell.definition.text import closest, pointer_part

FILES = ("resources.yaml", "resources.yml")
SCHEMES = ("python:", "lambda:", "workflow:")
_KEYS = ("resources", "substitutions")
_EXAMPLE = 'resources: {"arn:aws:lambda:*:function:charge": python:shop.charge}'


def check_resources(text: str, file: str = "") -> SideFile:
    """Checks a `resources.yaml`; never raises."""
    return check_side_file(text, file, _checked)


def _checked(context: Context, data: Json) -> Mapping[str, Json]:
    if not isinstance(data, dict):
        context.add("bad_resources", "the file must be a mapping", "", _EXAMPLE)
        return {}
    for key, value in data.items():
        path = f"/{pointer_part(key)}"
        if key not in _KEYS:
            context.add("unknown_key", f"unknown key `{key}`", path, closest(key, _KEYS))
        elif not isinstance(value, dict):
            context.add("bad_resources", f"`{key}` must be a mapping of names and values", path, _EXAMPLE)
        elif key == "resources":
            check_targets(context, value, path)
    return data


def check_targets(context: Context, mapped: Mapping[str, Json], path: str) -> None:
    """Reports what is no step, no Lambda function and no workflow."""
    for name, run in mapped.items():
        if not isinstance(run, str) or not run.startswith(SCHEMES):
            hint = "write python:module.function, lambda:NAME or workflow:NAME"
            context.add("bad_run", f"{run!r} cannot run in place of {name!r}", f"{path}/{pointer_part(name)}", hint)

"""Amazon States Language: recognizes its files and documents, and puts in what `resources.yaml` has for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath

from stepwell.definition.graph import Json
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

_FIELDS = ("States", "StartAt")  # each machine has both, at its top
_ENDINGS = (".asl.json", ".asl.yaml", ".asl.yml")


def is_named_as_machine(file: str) -> bool:
    return file.endswith(_ENDINGS)


def is_machine(keys: Collection[str]) -> bool:
    """Returns whether a file with these keys is a state machine for sure: either key may be one of a user's data."""
    return all(name in keys for name in _FIELDS)


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
    return "call the service in a Python function, with boto3; for a task token, a wait `for: callback` has a URL"


def with_resources(data: Json, resources: Mapping[str, Json]) -> tuple[Json, list[Problem]]:
    """Returns a state machine with its substitutions, and what runs its resources; anything else as it is.

    `resources`: a checked `resources.yaml`. The problems are names that it does not have.
    """
    if not isinstance(data, dict) or "States" not in data:
        return data, []
    values: Mapping[str, Json] = resources.get("substitutions", {})
    unknown = [_unknown(name, path, values) for name, path in _placeholders(data["States"], "/States")
               if name not in values]  # fmt: skip
    states = _filled(data["States"], values) if values else data["States"]
    texts = {text for text, _ in _texts(states, "")}
    mapped: Mapping[str, str] = resources.get("resources", {})
    used = {name: run for name, run in mapped.items() if any(is_named(text, name) for text in texts)}
    own = {**used, **data.get("resources", {})} if isinstance(data.get("resources", {}), dict) else used
    return {**data, "States": states, **({"resources": own} if own else {})}, unknown


def is_named(text: str, name: str) -> bool:
    """Returns whether a name, in which `*` stands for any text, is that of this text. Linear in both."""
    first, *others = name.split("*")
    if not others:
        return text == name
    if not text.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(others[-1]) and text.endswith(others[-1])


_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


def _placeholders(value: Json, path: str) -> Iterator[tuple[str, str]]:
    for text, place in _texts(value, path):
        yield from ((name, place) for name in _PLACEHOLDER.findall(text))


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yields each text in a value, with its JSON pointer."""
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}/{pointer_part(key)}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _texts(item, f"{path}/{at}")


def _filled(value: Json, values: Mapping[str, Json]) -> Json:
    """The value with its substitutions. Text that is one placeholder becomes the value itself, of any type."""
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    if whole is not None and whole[1] in values:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), value)


def _unknown(name: str, path: str, values: Mapping[str, Json]) -> Problem:
    hint = closest(name, values) if values else f"write resources.yaml beside it: substitutions: {{{name}: VALUE}}"
    return Problem("unknown_substitution", f"`${{{name}}}` has no value", path, hint)

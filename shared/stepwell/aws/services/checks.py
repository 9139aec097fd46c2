"""Checks the calls of services in state machines against the models that botocore brings. Nothing is called.

Without boto3, as in a light installation, only the integrations that Stepwell runs itself are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stepwell.definition.asl.services import HTTP, INVOKE, READS, WRITE, call_name, in_sdk, is_service
from stepwell.definition.graph import Json
from stepwell.definition.loader import load_document
from stepwell.definition.states_language import is_named, with_resources
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem
from stepwell.runtime.folder.loading import definition_files, load_resources
from stepwell.runtime.folder.reading import read_text

_WRITTEN = ("Bucket", "Prefix")  # of a ResultWriter
_START = ("StateMachineArn", "Input", "Name", "TraceHeader")
# Of the integrations that Stepwell runs itself: the parameters they must have, and all that they may have.
_OWN: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    HTTP: (("ApiEndpoint", "Method"),
           ("ApiEndpoint", "Method", "Headers", "QueryParameters", "RequestBody", "Transform",
            "Authentication", "InvocationConfig")),  # the compiler reports the last two
    INVOKE: ((), ("FunctionName", "Payload", "InvocationType", "Qualifier", "ClientContext", "LogType")),
    WRITE: (("Bucket",), _WRITTEN),
    "states:startExecution": ((), _START),
    "states:startExecution.sync": ((), _START),
    "states:startExecution.sync:2": ((), _START),
}  # fmt: skip
_OF_MAPS: Mapping[str, Sequence[str]] = {"ItemReader": READS, "ResultWriter": (WRITE,)}
_ANSWERED = ".waitForTaskToken"
_COMPUTED = ".$"


def check_services(path: Path, folder: Path | None = None) -> list[Problem]:
    """Returns the unknown services, actions and parameters of a folder's state machines, or of one file of `folder`."""
    files = definition_files(path) if path.is_dir() else [path]
    resources = load_resources(folder or path).document
    return [problem for file in files for problem in _of_file(file, resources)]


def _of_file(file: Path, resources: Mapping[str, Json]) -> Iterator[Problem]:
    text, _ = read_text(file)
    if text is None or ":states:" not in text:
        return
    loaded = load_document(text)
    data, _ = with_resources(loaded.data, resources)
    if not isinstance(data, dict) or "States" not in data:
        return
    mapped = data.get("resources")
    for place, state in _tasks(data["States"], "/States"):
        resource = state["Resource"]
        if not any(is_named(resource, name) for name in (mapped if isinstance(mapped, dict) else ())):
            for problem in _problems(resource, state, place):
                yield loaded.placed(problem, str(file))


def _tasks(value: Json, path: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yields each task that calls a service, and what reads or writes for a Map, with its place."""
    if isinstance(value, dict):
        for field, calls in _OF_MAPS.items() if value.get("Type") == "Map" else ():
            part = value.get(field)
            if isinstance(part, dict) and _call(str(part.get("Resource"))) in calls:
                yield f"{path}/{field}", part
        resource = value.get("Resource")
        if value.get("Type") == "Task" and isinstance(resource, str) and ":states:" in resource:
            if is_service(_call(resource)) or _call(resource) in _OWN:
                yield path, value
            return
        for key, part in value.items():
            yield from _tasks(part, f"{path}/{pointer_part(key)}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _tasks(part, f"{path}/{at}")


def _call(resource: str) -> str:
    return call_name(resource).removesuffix(_ANSWERED)


def _problems(resource: str, state: Mapping[str, Json], place: str) -> Iterator[Problem]:
    call = _call(resource)
    field = "Arguments" if "Arguments" in state else "Parameters"
    given = state.get(field)
    if call in _OWN:
        needed, known = _OWN[call]
        yield from _missing(given, needed, call, f"{place}/{field}")
        yield from _unknown(given, known, call, f"{place}/{field}")
    elif find_spec("botocore") is not None:
        yield from _of_model(call, given, f"{place}/Resource", f"{place}/{field}")


def _of_model(call: str, given: Json, place: str, path: str) -> Iterator[Problem]:
    from stepwell.aws.services import models  # noqa: PLC0415 - botocore, only where a machine calls a service
    from stepwell.aws.services.names import operation  # noqa: PLC0415 - as above

    service, action = in_sdk(call)
    name = models.find_service(service)
    if name is None:
        yield Problem("unknown_service", f"AWS has no service {service!r}", place, closest(service, models.services()))
        return
    model = models.model_of(name)
    if operation(action) not in model.operation_names:
        actions = [f"{one[0].lower()}{one[1:]}" for one in model.operation_names]
        hint = closest(action, actions)
        yield Problem("unknown_action", f"{service} has no action {action!r}", place, hint)
        return
    found = model.operation_model(operation(action))
    if models.is_streaming(found):
        yield Problem("unsupported_resource", f"{call} {models.STREAMS}", place, models.NO_STREAMS)
        return
    shape = found.input_shape
    needed = () if shape is None else shape.required_members
    yield from _missing(given, needed, call, path)
    yield from _of_shape(shape, given, call, path)


def _of_shape(shape: Any, given: Json, call: str, path: str) -> Iterator[Problem]:
    """Yields the unknown names in parameters that are written out."""
    from stepwell.aws.services.shapes import names_of  # noqa: PLC0415 - as above

    kind = "" if shape is None else shape.type_name
    if isinstance(given, list) and kind == "list":
        for at, one in enumerate(given):
            yield from _of_shape(shape.member, one, call, f"{path}/{at}")
    if not isinstance(given, dict):
        return
    if kind == "structure" or shape is None:
        members = {} if shape is None else names_of(shape)
        yield from _unknown(given, () if shape is None else shape.members, call, path, members)
        for key, one in given.items():
            if key.lower() in members:
                member = shape.members[members[key.lower()]]
                yield from _of_shape(member, one, call, f"{path}/{pointer_part(key)}")
    elif kind == "map":
        for key, one in given.items():
            yield from _of_shape(shape.value, one, call, f"{path}/{pointer_part(key)}")


def _unknown(
    given: Json,
    known: Sequence[str] | Mapping[str, Any],
    call: str,
    path: str,
    written: Mapping[str, str] | None = None,
) -> Iterator[Problem]:
    """`written`: the names by their small letters, where any case will do."""
    for key in given if isinstance(given, dict) else ():
        name = key.removesuffix(_COMPUTED)
        if name not in known and name.lower() not in (written or {}):
            message = f"{call} has no parameter {name!r}"
            yield Problem("unknown_parameter", message, f"{path}/{pointer_part(key)}", closest(name, known))


def _missing(given: Json, needed: Sequence[str], call: str, path: str) -> Iterator[Problem]:
    if not isinstance(given, dict):  # computed as a whole, or the state's input
        return
    there = {key.removesuffix(_COMPUTED).lower() for key in given}
    for name in needed:
        if name.lower() not in there:
            yield Problem("missing_parameter", f"{call} needs the parameter `{name}`", path, f"add {name}")

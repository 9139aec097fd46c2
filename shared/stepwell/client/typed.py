"""A workflow as its function: its name, its input from the arguments, its result as the type that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepwell.client.calls import StartOptions
from stepwell.client.errors import JsonObject
from stepwell.definition.authoring import WORKFLOW_MARK
from stepwell.errors import InvalidInput

_OPTIONS = StartOptions.__annotations__.keys()
Reader = Callable[[Any], Any]


def start_of(
    workflow: str | Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[str, JsonObject | Any, Reader]:
    """(name, input, reader of the result). Raises InvalidInput for arguments that do not fit."""
    if unknown := ", ".join(sorted(options.keys() - _OPTIONS)):
        raise InvalidInput(f"a start has no option {unknown}", code="step_input",
                           hint="give the function's arguments by position, or a workflow's name and its input as a "
                           "dict; by name, a start takes its options")  # fmt: skip
    if isinstance(workflow, str):
        if len(args) > 1:
            raise InvalidInput(f"workflow {workflow} takes one input", code="step_input",
                               hint="give it as a dict, or give the workflow's function")  # fmt: skip
        return workflow, args[0] if args else {}, _plain
    from stepwell.runtime.durable.operations import input_of  # noqa: PLC0415 - pydantic: 100 ms
    from stepwell.runtime.steps.binding import binding_of  # noqa: PLC0415 - as above

    name = getattr(workflow, WORKFLOW_MARK, None)
    if name is None:
        raise InvalidInput(f"{workflow!r} is no workflow", code="bad_value", hint="mark it with @workflow, or name it")
    given = input_of(workflow, args, {})
    binding_of(workflow).bind(given, None, name)  # what does not fit is refused here, and not by a run that fails
    return name, given, reader_of(workflow)


def reader_of(workflow: str | Callable[..., Any] | None) -> Reader:
    """Returns what reads the workflow's result: by its return type, or as JSON."""
    if workflow is None or isinstance(workflow, str):
        return _plain
    from stepwell.runtime.durable.operations import result_reader  # noqa: PLC0415 - pydantic: 100 ms

    return result_reader(workflow)


def _plain(value: Any) -> Any:
    return value

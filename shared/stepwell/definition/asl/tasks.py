"""Tasks: what a `Resource` runs, and what the state takes for its result.

the ARN of a Lambda function                  that function
arn:aws:states:::lambda:invoke                the function that the task's input names
arn:aws:states:::states:startExecution        a run that nobody waits for
arn:aws:states:::states:startExecution.sync   a child run, which is waited for
arn:aws:states:::dynamodb:putItem, …          a call of another service, which `services` has
what `resources` names                        that step, function or workflow
any of them, and `.waitForTaskToken`          the same, whose result comes by a callback
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from stepwell.definition.asl import services
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.names import is_thrown
from stepwell.definition.graph import Json, Throws
from stepwell.definition.states_language import is_named
from stepwell.definition.text import closest, compact_json
from stepwell.errors import ExpressionError
from stepwell.values import dataclass

_LAMBDA = re.compile(r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:[A-Za-z0-9_-]{1,140}(:[A-Za-z0-9_$-]{1,128})?")
_INTEGRATION = re.compile(
    r"arn:aws[a-z-]*:states:[a-z0-9-]*:\d*:([A-Za-z0-9-]+:[A-Za-z0-9-]+(?::[A-Za-z0-9]+)?)(\.[A-Za-z:0-9]+)?"
)
_NO_FUNCTIONS = ("arn:", "http:", "workflow:")
_MACHINE = re.compile(r"arn:aws[a-z-]*:states:[a-z0-9-]*:\d*:stateMachine:([A-Za-z0-9_-]{1,80})(:.+)?")


@dataclass(frozen=True, slots=True)
class Target:
    """What a task runs. `select`: the input of it, from the input of the task; `wrap`: the result of the task."""

    run: str  # python:module.function | lambda:NAME | workflow:NAME | the ARN of an integration
    select: Callable[[Json], Json] | None = None
    wrap: Callable[[Frame, Json], Json] | None = None
    uses: services.Uses = ()  # what an integration calls
    is_detached: bool = False  # of a workflow: nobody waits for its run
    has_token: bool = False  # its result comes by a callback, whose token its input may have

    @property
    def throws(self) -> Throws | None:
        """Of a function, here or on Lambda: tells its own errors, whose Cause is JSON."""
        calls = self.run.startswith(_NO_FUNCTIONS) and services.call_name(self.run) != services.INVOKE
        return None if calls else is_thrown


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a resource cannot be run."""

    message: str
    hint: str


ANSWERED = ".waitForTaskToken"
_STARTS = tuple(f"states:startExecution{end}" for end in ("", ".sync", ".sync:2", ANSWERED))
_CALLS = (*services.NATIVE, services.HTTP, services.INVOKE, _STARTS[0])
_MAP_IT = 'name what runs in its place in resources.yaml: resources: {"%s": python:module.function}'


def target_of(resource: str, given: Json, mapped: Mapping[str, str]) -> Target | Unsupported:
    """Finds what a resource runs. `given`: the state's Parameters or Arguments, as written; `mapped`: `resources`.

    Any target can wait for a callback: what it returns is dropped.
    """
    found = _target_of(resource, given, mapped)
    if isinstance(found, Unsupported) or not resource.endswith(ANSWERED):
        return found
    return replace(found, wrap=None, has_token=True)


def mapped_to(resource: str, mapped: Mapping[str, str]) -> str | None:
    """Returns what `resources` has in place of a resource: first of all by its whole name."""
    own = next((run for name, run in mapped.items() if name == resource), None)
    return own or next((run for name, run in mapped.items() if is_named(resource, name)), None)


def _target_of(resource: str, given: Json, mapped: Mapping[str, str]) -> Target | Unsupported:
    own = mapped_to(resource, mapped)
    if own is not None:
        return Target(own)
    if _LAMBDA.fullmatch(resource):
        return Target(f"lambda:{resource}")
    found = _INTEGRATION.fullmatch(resource)
    call = "" if found is None else f"{found[1]}{found[2] or ''}"
    plain, run = call.removesuffix(ANSWERED), resource.removesuffix(ANSWERED)
    if plain == services.INVOKE:
        return _invoked(run, given, mapped)
    if call in _STARTS:
        return _started(given, mapped, call)
    if services.is_service(plain) and call != f"{services.HTTP}{ANSWERED}":
        refused = services.refusal(plain, given)
        return Unsupported(*refused) if refused else Target(run, uses=services.uses(plain, given))
    message = f"nothing runs the resource {resource[:120]!r} in this version"
    if found is not None and (meant := closest(plain, _CALLS)).startswith("did you mean"):
        return Unsupported(message, meant)
    is_plain = found is not None and not found[2] and found[1].count(":") == 1
    sdk = f"write the SDK's call, arn:aws:states:::aws-sdk:{call}, or " if is_plain else ""
    return Unsupported(message, sdk + _MAP_IT % resource)


def _invoked(resource: str, given: Json, mapped: Mapping[str, str]) -> Target | Unsupported:
    """A function that is written out is called by its name, and may be mapped; any other as the parameters say."""
    if not isinstance(given, dict | str) or (isinstance(given, dict) and not given.keys() & _FUNCTION):
        message = "the task calls a Lambda function that it does not name in `FunctionName`"
        return Unsupported(message, 'write "FunctionName": "NAME"')
    name, qualifier = services.literal(given, "FunctionName"), services.literal(given, "Qualifier")
    own = next((run for one, run in mapped.items() if name is not None and is_named(name, one)), None)
    if own is None and (name is None or not _is_plain(given)):
        return Target(resource, uses=services.uses(services.INVOKE, given))
    run = own or f"lambda:{name}{f':{qualifier}' if qualifier else ''}"
    return Target(run, _payload, _invocation)


_FUNCTION = {"FunctionName", "FunctionName.$"}


def _is_plain(given: Json) -> bool:
    """Tells whether the call is waited for, and the function's version is written out."""
    if not isinstance(given, dict) or given.keys() & {"InvocationType.$", "Qualifier.$"}:
        return False
    is_written = "Qualifier" not in given or services.literal(given, "Qualifier") is not None
    return is_written and given.get("InvocationType", "RequestResponse") == "RequestResponse"


def _payload(given: Json) -> Json:
    return given.get("Payload", {}) if isinstance(given, dict) else {}


def _invocation(frame: Frame, brought: Json) -> Json:
    return {"ExecutedVersion": "$LATEST", "Payload": brought, "StatusCode": 200}


def _started(given: Json, mapped: Mapping[str, str], call: str) -> Target | Unsupported:
    arn = given.get("StateMachineArn") if isinstance(given, dict) else None
    found = _MACHINE.fullmatch(arn) if isinstance(arn, str) else None
    own = next((run for one, run in mapped.items() if isinstance(arn, str) and is_named(arn, one)), None)
    if own is None and found is None:
        message = "the task starts a state machine that it does not name in `StateMachineArn`"
        return Unsupported(message, "write its ARN, or map what is written to a workflow in resources.yaml")
    name = found[1] if found else str(arn)
    run = own or f"workflow:{name}"

    def execution(frame: Frame, brought: Json) -> Json:
        is_parsed = call.endswith(":2")
        output = brought if is_parsed else compact_json(brought)
        return {"Name": name, "Output": output, "StateMachineArn": arn, "Status": "SUCCEEDED"}

    def begun(frame: Frame, brought: Json) -> Json:
        machine = found[0].removesuffix(found[2] or "") if found else f"arn:aws:states:::stateMachine:{name}"
        execution = f"{machine.replace(':stateMachine:', ':execution:')}:{brought}"
        return {"ExecutionArn": execution, "StartDate": frame.names["now"]}

    if call == "states:startExecution" and not run.startswith("workflow:"):
        return Target(run, _execution_input)  # there is no execution: what runs in its place answers as the call does
    if call == "states:startExecution":
        return Target(run, _execution_input, begun, is_detached=True)
    return Target(run, _execution_input, execution)


def _execution_input(given: Json) -> Json:
    """The input of an execution, which may be JSON as text."""
    value = given.get("Input", {}) if isinstance(given, dict) else {}
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ExpressionError(f"the `Input` of the execution is no JSON: {error}") from error

"""The pydantic models of the format `actions`: an action, and the parameters of each known type."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from stepwell.definition.graph import Json
from stepwell.definition.model_parts import (
    ActionId,
    AtLeastOne,
    CompensateDef,
    Condition,
    Count,
    Duration,
    KeyDef,
    Names,
    RetryDef,
    Written,
)

_KNOWN_TYPES = ("send_message", "wait_for_response", "trigger_agent", "request_document", "request_signature",
                "assign_test", "wait_for_event", "wait_for_any", "delay")  # fmt: skip


class AgentActionDef(Written):
    """One action of an agent: a known type, or the name of a function."""

    action_type: str = Field(description=f"{', '.join(_KNOWN_TYPES)}, or a name given by @step(name=…)")
    id: ActionId | None = Field(default=None, description="default: its number and its type, as 1-send_message")
    parameters: dict[str, Any] | None = Field(default=None, description="with templates; default: every variable")
    next_action_id: ActionId | None = Field(
        default=None, description="the next action, or `end`; default: the following one"
    )
    next_when: Condition | None = Field(default=None, description="`next_action_id` applies only if this holds")
    description: str | None = None
    timeout: Duration | None = None
    retry: RetryDef | None = None
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    at_most_once: bool | None = None
    pool: str | None = None
    on_failure: Literal["abort", "skip", "compensate"] | None = None
    compensate: CompensateDef | None = None
    max_visits: AtLeastOne | None = None

    @field_validator("parameters", mode="wrap")
    @classmethod
    def _of_its_type(cls, value: object, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        model = PARAMETERS.get(info.data.get("action_type", ""))
        return inner(value if model is None else model.model_validate(value).model_dump(exclude_unset=True))


class TimeoutActionDef(AgentActionDef):
    """An action that runs when a wait times out, written as here or as in the other formats."""

    run: str | None = Field(default=None, description="the same as action_type")
    input: dict[str, Any] | None = Field(default=None, description="the same as parameters")


class TimeoutParameters(Written):
    """The time limit of an action that waits, and its reaction to a time-out."""

    timeout: Duration | None = None
    on_timeout: Literal["fail", "continue", "retry"] | None = None
    max_retries: Count | None = None
    timeout_actions: list[TimeoutActionDef] | None = None


class WaitParameters(TimeoutParameters):
    """The parameters of an action that waits for an event."""

    key: KeyDef | None = None
    thread_id: KeyDef | None = Field(default=None, description="the same as key")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class ResponseParameters(WaitParameters):
    """The parameters of `wait_for_response`."""

    expected_from: str | None = Field(default=None, description="the required `from` of the event")


class DocumentParameters(WaitParameters):
    """The parameters of `request_document`."""

    documents: Names | None = Field(default=None, description="the requested documents; default: any one")


class SignatureParameters(WaitParameters):
    """The parameters of `request_signature`."""

    document: Json = Field(default=None, description="the document to sign, shown in waiting_data")


class TestParameters(WaitParameters):
    """The parameters of `assign_test`."""

    test: Json = Field(default=None, description="the test, shown in waiting_data")


class EventParameters(WaitParameters):
    """The parameters of `wait_for_event`."""

    name: str | None = Field(default=None, description="the event's name; default: EVENT_COMPLETED")


class AnyParameters(TimeoutParameters):
    """The parameters of `wait_for_any`."""

    any: list[AgentActionDef] | None = Field(
        default=None, description="actions that wait; the first that ends is the end of all"
    )
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class DelayParameters(Written):
    """The parameters of `delay`."""

    duration: Duration | None = None
    timeout: Duration | None = Field(default=None, description="the same as duration")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class TriggerParameters(TimeoutParameters):
    """The parameters of `trigger_agent`."""

    agent: str | None = Field(default=None, description="the workflow's name")
    wait_for_completion: bool | None = Field(default=None, description="false: an independent run; default: true")
    input: Json = Field(default=None, description="any JSON with templates; default: every variable")
    parameters: Json = Field(default=None, description="the same as input")
    on_failure: Literal["return", "propagate"] | None = Field(
        default=None, description="return (default): see childExecutionSuccess; propagate: the action fails too"
    )
    parent_close: Literal["cancel", "abandon"] | None = None


PARAMETERS: dict[str, type[Written]] = {
    "wait_for_response": ResponseParameters,
    "trigger_agent": TriggerParameters,
    "request_document": DocumentParameters,
    "request_signature": SignatureParameters,
    "assign_test": TestParameters,
    "wait_for_event": EventParameters,
    "wait_for_any": AnyParameters,
    "delay": DelayParameters,
}

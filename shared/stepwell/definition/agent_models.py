"""What users write in the format `actions`, as pydantic models: an action, and what each known type takes."""

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
                "assign_test", "wait_for_event", "delay")  # fmt: skip


class AgentActionDef(Written):
    """One action of an agent: of a known type, or the name of a function."""

    action_type: str = Field(description=f"{', '.join(_KNOWN_TYPES)}, or a name given by @step(name=…)")
    id: ActionId | None = Field(default=None, description="default: its number and its type, as 1-send_message")
    parameters: dict[str, Any] | None = Field(default=None, description="with templates; default: every variable")
    next_action_id: ActionId | None = Field(default=None, description="what follows, or `end`; default: the next one")
    next_when: Condition | None = Field(default=None, description="`next_action_id` follows only where this holds")
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


class TimeoutParameters(Written):
    """How long an action waits, and what its time being up means."""

    timeout: Duration | None = None
    on_timeout: Literal["fail", "continue", "retry"] | None = None
    max_retries: Count | None = None
    timeout_actions: list[AgentActionDef] | None = None


class WaitParameters(TimeoutParameters):
    """Of an action that waits for an event."""

    key: KeyDef | None = None
    thread_id: KeyDef | None = Field(default=None, description="the same as key")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class ResponseParameters(WaitParameters):
    """Of `wait_for_response`."""

    expected_from: str | None = Field(default=None, description="what the event's `from` has to be")


class DocumentParameters(WaitParameters):
    """Of `request_document`."""

    documents: Names | None = Field(default=None, description="those asked for; default: one, any")


class SignatureParameters(WaitParameters):
    """Of `request_signature`."""

    document: Json = Field(default=None, description="what is to be signed, shown as a part of waiting_data")


class TestParameters(WaitParameters):
    """Of `assign_test`."""

    test: Json = Field(default=None, description="which one, shown as a part of waiting_data")


class EventParameters(WaitParameters):
    """Of `wait_for_event`."""

    name: str | None = Field(default=None, description="the event's name; default: EVENT_COMPLETED")


class DelayParameters(Written):
    """Of `delay`."""

    duration: Duration | None = None
    timeout: Duration | None = Field(default=None, description="the same as duration")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class TriggerParameters(TimeoutParameters):
    """Of `trigger_agent`."""

    agent: str | None = Field(default=None, description="the workflow's name")
    wait_for_completion: bool | None = Field(default=None, description="false: an independent run; default: true")
    input: Json = Field(default=None, description="any JSON with templates; default: every variable")
    parameters: Json = Field(default=None, description="the same as input")
    on_failure: Literal["return", "propagate"] | None = Field(
        default=None, description="return (default): childExecutionSuccess tells; propagate: the action fails too"
    )
    parent_close: Literal["cancel", "abandon"] | None = None


PARAMETERS: dict[str, type[Written]] = {
    "wait_for_response": ResponseParameters,
    "trigger_agent": TriggerParameters,
    "request_document": DocumentParameters,
    "request_signature": SignatureParameters,
    "assign_test": TestParameters,
    "wait_for_event": EventParameters,
    "delay": DelayParameters,
}

"""The options of `@workflow`, for type checkers and editors: keys of a definition, in snake_case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from stepwell.definition.graph import Json

_Duration = str | int | float


class WorkflowOptions(TypedDict, total=False):
    """What a durable function may be given beside its name and its version."""

    description: str
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json]
    state_schema: Mapping[str, Json]
    timeout: _Duration
    retry: Mapping[str, Any]
    retry_policy: Mapping[str, Any]
    failure_policy: Literal["fail", "compensate"]
    compensate_on: Sequence[Literal["timeout", "cancel"]]
    internal: bool
    retention: _Duration
    lock: str | Sequence[str]
    concurrency: Mapping[str, Any]
    singleton: Mapping[str, Any]
    rate_limit: Mapping[str, Any]
    debounce: Mapping[str, Any]
    batch: Mapping[str, Any]
    max_cost: float
    durability: Literal["step"]
    priority: int
    snapshot: Literal["none", "on_end", "on_wait"]
    events: Mapping[str, Mapping[str, Any]]
    triggers: Sequence[Mapping[str, Any]]
    start: Literal["auto", "manual"]
    cleanup: _Duration

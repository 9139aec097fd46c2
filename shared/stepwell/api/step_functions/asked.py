"""What callers ask of the API of Step Functions: strict models of its bodies."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from stepwell.api.requests import Body

MOST_AT_ONCE = 1_000
_TOKEN = Field("", max_length=3_000)
_MAX_RESULTS = Field(0, ge=0, le=MOST_AT_ONCE)  # 0: as many as by default
Included = Literal["ALL_DATA", "METADATA_ONLY"]
Status = Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE"]


class Asked(Body):
    """The base of them. Names are in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


class Started(Asked):
    state_machine_arn: str
    name: str | None = None
    input: str = "{}"
    trace_header: str = ""  # X-Ray's; a run keeps a W3C trace context only


class StartedSync(Started):
    included_data: Included = "ALL_DATA"


class OfExecution(Asked):
    execution_arn: str


class Described(OfExecution):
    included_data: Included = "ALL_DATA"


class Stopped(OfExecution):
    error: str = Field("", max_length=256)
    cause: str = Field("", max_length=32_768)


class History(OfExecution):
    max_results: int = _MAX_RESULTS
    reverse_order: bool = False
    next_token: str = _TOKEN
    include_execution_data: bool = True


class Executions(Asked):
    state_machine_arn: str = ""
    map_run_arn: str = ""
    status_filter: Status | None = None
    redrive_filter: Literal["REDRIVEN", "NOT_REDRIVEN"] | None = None
    max_results: int = _MAX_RESULTS
    next_token: str = _TOKEN


class Machines(Asked):
    max_results: int = _MAX_RESULTS
    next_token: str = _TOKEN


class Machine(Asked):
    state_machine_arn: str
    included_data: Included = "ALL_DATA"


class TaskBeat(Asked):
    task_token: str


class TaskDone(TaskBeat):
    output: str


class TaskFailed(TaskBeat):
    error: str = Field("", max_length=256)
    cause: str = Field("", max_length=32_768)

"""Stepwell: durable workflows on AWS, serverless, in Python. The imports of step code; standard library only."""

from typing import TYPE_CHECKING

from stepwell.definition.authoring import (
    Retry,
    children,
    fail,
    sleep,
    step,
    wait_for_approval,
    wait_for_callback,
    wait_for_event,
    workflow,
)
from stepwell.engine.durable.transact import Check, Delete, Put, Update
from stepwell.errors import Blocked, Cancelled, External, Invalid, StepError, Transient
from stepwell.runtime.durable.failures import (
    ChildFailed,
    OperationFailed,
    Rejected,
    StepFailed,
    TransactionRefused,
    WaitTimedOut,
)
from stepwell.runtime.steps.context import StepContext

if TYPE_CHECKING:
    from stepwell.client import AsyncClient, Client
    from stepwell.runtime.durable.typed import WorkflowContext

    __version__: str

__all__ = [
    "AsyncClient",
    "Blocked",
    "Cancelled",
    "Check",
    "ChildFailed",
    "Client",
    "Delete",
    "External",
    "Invalid",
    "OperationFailed",
    "Put",
    "Rejected",
    "Retry",
    "StepContext",
    "StepError",
    "StepFailed",
    "TransactionRefused",
    "Transient",
    "Update",
    "WaitTimedOut",
    "WorkflowContext",
    "children",
    "fail",
    "sleep",
    "step",
    "wait_for_approval",
    "wait_for_callback",
    "wait_for_event",
    "workflow",
]

if not TYPE_CHECKING:  # a checker would take any name for one of this module

    def __getattr__(name: str) -> object:
        """Imports lazily what steps do not need: the client, the type of `ctx`, and the version."""
        if name in {"AsyncClient", "Client"}:
            from stepwell import client  # noqa: PLC0415 - httpx: 100 ms

            return getattr(client, name)
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415 - 20 ms

            return version(__name__)
        if name == "WorkflowContext":
            from stepwell.runtime.durable.context import Context  # noqa: PLC0415 - only for who asks for it

            return Context
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

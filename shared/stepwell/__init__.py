"""Stepwell: durable workflows on AWS, serverless, in Python. What step code imports; standard library only."""

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
from stepwell.engine.transact import Check, Delete, Put, Update
from stepwell.errors import Blocked, Cancelled, External, Invalid, StepError, Transient
from stepwell.runtime.functions.failures import (
    ChildFailed,
    OperationFailed,
    Rejected,
    StepFailed,
    TransactionRefused,
    WaitTimedOut,
)
from stepwell.runtime.steps.context import StepContext

__all__ = [
    "Blocked",
    "Cancelled",
    "Check",
    "ChildFailed",
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
    "children",
    "fail",
    "sleep",
    "step",
    "wait_for_approval",
    "wait_for_callback",
    "wait_for_event",
    "workflow",
]

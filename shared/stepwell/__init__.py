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
from stepwell.errors import Blocked, Cancelled, External, Invalid, StepError, Transient
from stepwell.runtime.steps.context import StepContext

__all__ = [
    "Blocked",
    "Cancelled",
    "External",
    "Invalid",
    "Retry",
    "StepContext",
    "StepError",
    "Transient",
    "children",
    "fail",
    "sleep",
    "step",
    "wait_for_approval",
    "wait_for_callback",
    "wait_for_event",
    "workflow",
]

"""Stepwell in a CDK app: the construct `StepwellEngine`, its properties, and a stack that has one engine.

    from stepwell.cdk import EngineProps, StepwellEngine

    engine = StepwellEngine(self, "Stepwell", EngineProps(folder=Path("workflows")))
    engine.grant_start(orders_function)

The CDK is a Node program with a Python interface. It runs on the Node of the extra `deploy`, which the environment must
name before `aws_cdk` is imported. That import takes seconds, so the names below are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stepwell.cdk.node import installed_node
from stepwell.extras import require
from stepwell.settings import prefer_node

if TYPE_CHECKING:
    from stepwell.cdk.engine import StepwellEngine
    from stepwell.cdk.errors import BadProperty, BundlingError
    from stepwell.cdk.props import EngineProps, Pool
    from stepwell.cdk.stack import StepwellStack

__all__ = ["BadProperty", "BundlingError", "EngineProps", "Pool", "StepwellEngine", "StepwellStack"]

_PLACES = {
    "BadProperty": "errors",
    "BundlingError": "errors",
    "EngineProps": "props",
    "Pool": "props",
    "StepwellEngine": "engine",
    "StepwellStack": "stack",
}

if _node := installed_node():
    prefer_node(_node)

if not TYPE_CHECKING:  # a checker would take any name for one of this module

    def __getattr__(name: str) -> object:
        """Imports a public name. Raises StepwellError `not_installed` without the extra `deploy`."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require("deploy", "stepwell.cdk")
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)

"""Starts that become one run, as its log tells them. `stepwell.engine.gathering` decides which ones do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.records import Kind, Record, RunInfo
from stepwell.engine.table import Phase
from stepwell.engine.token import Gathered, Token

DEBOUNCE, BATCH = "debounce", "batch"
ITEMS = "items"  # of a batch's input: the inputs of its starts


def is_open(run: RunInfo, token: Token) -> bool:
    """Tells whether the run may take another start: it has neither begun nor ended."""
    if not run.gathers or token.branch is not None:
        return False
    return token.last is None or token.last.kind is Kind.GATHERED


def has_begun(token: Token) -> bool:
    """Tells whether the token's run was picked up before this record: its header says when."""
    return token.branch is not None or token.phase is not Phase.INITIALIZING


def gathered(token: Token, record: Record) -> dict[str, Any]:
    """Applies a start."""
    before, mode = token.gathered, record.rules[0]
    given = (*before.given, record.output) if before is not None and mode == BATCH else (record.output,)
    count, since_ms = (1, record.at_ms) if before is None else (before.count + 1, before.since_ms)
    return {"gathered": Gathered(mode, count, since_ms, record.at_ms, given)}


def input_of(starts: Gathered) -> Json:
    """Returns the run's input."""
    return {ITEMS: list(starts.given)} if starts.mode == BATCH else starts.given[-1]


def with_input(run: RunInfo, token: Token) -> RunInfo:
    """Returns the run with the input that its starts have given it so far."""
    return replace(run, input=input_of(token.gathered)) if run.gathers and token.gathered is not None else run

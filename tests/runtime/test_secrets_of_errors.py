"""The work that masking an error's text is: bounded, however long the text."""

from __future__ import annotations

import logging
import sys

from stepwell.local.run_logs import Lines
from stepwell.runtime.steps.failures import MESSAGE_CHARACTERS, failure_of
from tests.effort import loops

TEXT = "password=hunter2 " + "x" * 20_000_000


def test_the_work_for_an_error_does_not_grow_with_its_message() -> None:
    """Masking holds the interpreter: for ten million characters no other run went on for half a minute."""
    error = ValueError(TEXT)
    assert loops(lambda: failure_of(error, "n", 1, 1_000)) < 20
    told = failure_of(error, "n", 1, 1_000).message
    assert told.startswith("password=[secret] xxx")
    assert len(told) == MESSAGE_CHARACTERS


def test_nor_does_that_for_its_line_in_the_log() -> None:
    try:
        raise ValueError(TEXT)
    except ValueError:
        record = logging.LogRecord("stepwell", logging.WARNING, "", 0, "it failed", None, sys.exc_info())
    lines = [""]
    assert loops(lambda: lines.append(Lines().format(record))) < 20
    assert "ValueError: password=[secret] xxx" in lines[-1]

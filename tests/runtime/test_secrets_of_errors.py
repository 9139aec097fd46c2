"""The work that masking an error's text is: bounded, however long the text. Counted in characters, not in time."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable

import pytest

from stepwell.local.run_logs import Lines
from stepwell.runtime.steps import secrets
from stepwell.runtime.steps.failures import MESSAGE_CHARACTERS, failure_of

TEXT = "password=hunter2 " + "x" * 2_000_000
AT_MOST = 200_000  # characters: of the message and of its line in a log


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each text that is searched for secrets."""
    lengths: list[int] = []
    masking = secrets.masking

    def counted(known: Iterable[str]) -> Callable[[str], str]:
        mask = masking(known)
        return lambda text: (lengths.append(len(text)), mask(text))[1]

    monkeypatch.setattr(secrets, "masking", counted)
    return lengths


def test_the_work_for_an_error_does_not_grow_with_its_message(searched: list[int]) -> None:
    """Masking holds the interpreter: for ten million characters no other run went on for half a minute."""
    told = failure_of(ValueError(TEXT), "n", 1, 1_000).message
    assert 0 < sum(searched) < AT_MOST
    assert told.startswith("password=[secret] xxx")
    assert len(told) == MESSAGE_CHARACTERS


def test_nor_does_that_for_its_line_in_the_log(searched: list[int]) -> None:
    try:
        raise ValueError(TEXT)
    except ValueError:
        record = logging.LogRecord("stepwell", logging.WARNING, "", 0, "it failed", None, sys.exc_info())
    line = Lines().format(record)
    assert 0 < sum(searched) < AT_MOST
    assert "ValueError: password=[secret] xxx" in line

"""Connects a command to the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.cli.finding import FindingClient


def connect(url: str) -> FindingClient:
    """Connects to the API of the argument, else of STEPWELL_URL, else of this machine. Raises UserError."""
    from stepwell.cli import finding  # noqa: PLC0415 - httpx: 100 ms that `--help` does without

    return finding.FindingClient(url)


def person(by: str) -> str:
    """The person who acts: the value of `--by`, or the logged-in user."""
    return by or read_settings().user

"""Connects a command to the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.client import Client


def connect(url: str) -> Client:
    """Connects to the API of the argument, else of STEPWELL_URL, else of this machine. Raises UserError."""
    from stepwell.cli.finding import FindingClient  # noqa: PLC0415 - httpx: 100 ms that `--help` does without

    return FindingClient(url)


def person(by: str) -> str:
    """The person who acts: the value of `--by`, or the logged-in user."""
    return by or read_settings().user

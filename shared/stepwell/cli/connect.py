"""The way from a command to the API: which URL, and a client for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.cli.client import Client


def connect(url: str) -> Client:
    """The API named on the line, else by STEPWELL_URL, else this machine's. Raises UserError."""
    from stepwell.cli.access import access_to  # noqa: PLC0415 - httpx: 100 ms that `--help` does without
    from stepwell.cli.client import Client  # noqa: PLC0415

    settings = read_settings()
    place = url or settings.url
    return Client(place, access_to(place, settings))


def person(by: str) -> str:
    """Who acts: who `--by` names, else who is logged in."""
    return by or read_settings().user

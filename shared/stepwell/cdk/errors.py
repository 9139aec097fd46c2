"""The errors of a synthesis."""

from __future__ import annotations

from stepwell.errors import UserError


class BadProperty(UserError, ValueError):
    """A bad property; the message has its name, its value and the allowed values."""

    code = "bad_property"


class BundlingError(UserError, RuntimeError):
    """A package could not be built; the message has the reason, or the tool's output."""

    code = "not_packed"

"""An error as the text by which the CDK app of a project hands it to the command that runs it."""

from __future__ import annotations

import re

from stepwell.errors import StepwellError, UserError

_REPORT = re.compile(
    r"^error: (?P<message>.*) \[(?P<code>[a-z_]+)\](?:\n  hint: (?P<hint>.*))?\Z", re.DOTALL | re.MULTILINE
)


def report(error: StepwellError) -> str:
    """Returns what the app prints on stderr: the message with its code, and the hint below it."""
    hint = f"\n  hint: {error.hint}" if error.hint else ""
    return f"error: {error.message} [{error.code}]{hint}"


def reported(text: str) -> StepwellError | None:
    """Returns the error that an app's output ends with, if it is one of `report`."""
    found = _REPORT.search(text.strip())
    return UserError(found["message"], code=found["code"], hint=found["hint"]) if found else None

"""The categories of errors, and what a retry policy names that is doubtful."""

from __future__ import annotations

from stepwell.definition.graph import NEVER_RETRIED
from stepwell.definition.text import did_you_mean
from stepwell.errors import Problem

CATEGORIES = ("transient", "step", "timeout", "external", "worker_lost", "validation", "governance")
_ALL = frozenset(("all", "any", "*", "everything"))  # which no error's type is
_NEAR = 0.8  # how alike a category and its misspelling are: `step_timeout` and `timeout` are less so


def doubtful_category(name: str, path: str = "") -> Problem | None:
    """Returns a warning about a name in `on` that leads to no retry, or is nearly a category's.

    Other names may be types of errors, which are any text. Those of classes begin with a capital: `stepwell.External`.
    """
    if name in NEVER_RETRIED:
        message = f"errors of the category `{name}` are never retried, so that `on: {name}` has no effect"
        hint = "remove it, or name a type of errors" if name == "validation" else "remove it"
        return Problem("never_retried", message, path, hint, severity="warning")
    if name.lower() in _ALL:
        message = f"no category of errors is called `{name}`, so that `on: {name}` has no effect"
        hint = "name those that you mean, such as on: [transient, step, timeout, external, worker_lost]"
        return Problem("unknown_category", message, path, hint, severity="warning")
    near = did_you_mean(name, CATEGORIES, _NEAR)
    if name in CATEGORIES or not name.islower() or not near:
        return None
    message = f"no category of errors is called `{name}`, so that only errors of this type are retried"
    return Problem("unknown_category", message, path, near, severity="warning")

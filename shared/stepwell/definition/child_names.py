"""Names child runs that start together, for definitions and steps alike. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count


def child_names(children: Sequence[tuple[str, str | None]]) -> list[str]:
    """Returns the name of each child from its workflow and the user's name for it, if any.

    The default is the workflow's name, numbered from 2 if taken: `fraud`, `fraud_2`, `fraud_3`.
    """
    taken = {name for _, name in children if name is not None}
    first: dict[str, int] = {}  # for each workflow name that is free, the child that gets it without a number
    for at, (workflow, name) in enumerate(children):
        if name is None and workflow not in taken:
            first.setdefault(workflow, at)
    taken |= first.keys()
    numbers = {workflow: count(2) for workflow, _ in children}

    def numbered(workflow: str) -> str:
        name = next(name for number in numbers[workflow] if (name := f"{workflow}_{number}") not in taken)
        taken.add(name)
        return name

    return [
        name if name is not None else workflow if first.get(workflow) == at else numbered(workflow)
        for at, (workflow, name) in enumerate(children)
    ]

"""Names the child runs that are started together, by one rule for definitions and for steps. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count


def child_names(children: Sequence[tuple[str, str | None]]) -> list[str]:
    """The name of each child, given its workflow and the name that the user gave it, if any.

    Without a name it is the workflow's, numbered from 2 on where that is taken: `fraud`, `fraud_2`, `fraud_3`.
    """
    taken = {name for _, name in children if name is not None}
    first: dict[str, int] = {}  # of each workflow that is not taken, the child that has its name as it is
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

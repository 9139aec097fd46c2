"""Names the child runs that are started together, by one rule for definitions and for steps. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence


def child_names(children: Sequence[tuple[str, str | None]]) -> list[str]:
    """The name of each child, given its workflow and the name that the user gave it, if any.

    Without a name it is the workflow's, numbered from 2 on where that is taken: `fraud`, `fraud_2`, `fraud_3`.
    """
    taken = {name for _, name in children if name is not None}
    names = [name or "" for _, name in children]
    for at, (workflow, name) in enumerate(children):
        if name is None and workflow not in taken:
            names[at] = workflow
            taken.add(workflow)
    numbers: dict[str, int] = {}
    for at, (workflow, _) in enumerate(children):
        if not names[at]:
            number = numbers.get(workflow, 2)
            while f"{workflow}_{number}" in taken:
                number += 1
            names[at] = f"{workflow}_{number}"
            taken.add(names[at])
            numbers[workflow] = number + 1
    return names

"""Refuses assumptions about a step, a wait or a rule that the workflow does not have: they would change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from stepwell.definition.graph import Graph
from stepwell.simulation.assumptions import Assumptions
from stepwell.simulation.naming import KINDS, names_of
from stepwell.testing.names import Names


def refuse_unknown(
    given: Assumptions, graphs: Iterable[Graph], folder: Path, met: Collection[str] | None = None
) -> None:
    """Raises UserError for a name that nothing has. `met`: the names of what ran; None: nothing has run yet.

    What a durable function names is known for certain only afterwards.
    """
    known = tuple(graphs)
    named = names_of(known)
    code = folder if any(graph.replays for graph in known) else None
    for said, wanted, where in (
        ("steps", given.steps, code),
        ("waits", given.waits, code),
        ("rules", given.rules, None),
        ("items", given.items, None),
    ):
        names = Names(KINDS[said], named[said], (), where)
        if met is None:
            names.refuse(wanted, said)
        else:
            names.refuse_unmet(wanted, met, said)

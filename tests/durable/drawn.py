"""A run of a durable function as it is drawn."""

from __future__ import annotations

from stepwell.api.graphs import node_states
from stepwell.api.runs.flows import Flow, read_flow
from stepwell.api.runs.ran import steps_of
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell


def flow_now(kit: Stepwell, run_id: str) -> Flow:
    """The graph of a run of a durable function."""
    at = run_now(kit.service.standing(run_id))
    forks = run_now(kit.service.survey(at))
    states = node_states(at, steps_of(at, forks))
    return run_now(read_flow(kit.service, at, forks, states[at.graph.start]))

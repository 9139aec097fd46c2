"""Simulates many runs of a workflow in virtual time, by the real engine, without calling any step.

assumptions ── durations, failures, answers ──▶ engine in memory ──▶ outcomes, times, cost, dead branches
"""

from stepwell.simulation.assumptions import Assumptions, parse_assumptions
from stepwell.simulation.simulating import simulate
from stepwell.simulation.summary import Simulation

__all__ = ["Assumptions", "Simulation", "parse_assumptions", "simulate"]

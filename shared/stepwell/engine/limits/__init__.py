"""Locks, permits and turns: what a run or a step needs to hold before it begins, as its log tells it."""

"""Forks and joins: the branches of a fork, the order in which they begin, and when their join is complete."""

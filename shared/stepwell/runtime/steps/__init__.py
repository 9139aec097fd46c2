"""Runs users' code: finds functions, binds input, enforces time limits, and turns errors into data."""

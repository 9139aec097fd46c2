"""Webhooks: calls of other systems, proved by their own signatures, as events and as starts of runs."""

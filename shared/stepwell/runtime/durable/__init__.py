"""Durable functions: their context `ctx`, and the sessions that run them."""

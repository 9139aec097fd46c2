"""Durable functions, as their writers use them."""

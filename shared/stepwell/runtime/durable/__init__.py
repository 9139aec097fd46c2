"""Durable functions: what they are given to write with, and the sessions that run them."""

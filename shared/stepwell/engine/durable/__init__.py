"""Durable functions: a session that replays a function against its log, and the records of what it does next."""

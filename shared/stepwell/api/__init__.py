"""The HTTP API: routes, what they accept, and what they answer. Decides nothing about runs."""

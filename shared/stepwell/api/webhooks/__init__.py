"""Incoming webhooks: signed calls of other systems, which become events or start runs."""

"""Tells others about runs: notifications, webhook deliveries and their endpoints."""

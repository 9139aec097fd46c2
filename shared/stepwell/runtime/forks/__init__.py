"""Forks in the world: branches, child runs, and what a rollback undoes."""

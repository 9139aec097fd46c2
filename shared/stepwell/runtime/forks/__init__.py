"""Performs the effects of forks: branches, child runs, and what a rollback undoes."""

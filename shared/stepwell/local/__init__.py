"""The ports on one machine, on SQLite and folders, and the dev server."""

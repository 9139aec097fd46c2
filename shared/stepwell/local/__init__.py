"""The ports on one machine: SQLite and folders for development, plain dictionaries for tests and simulation."""

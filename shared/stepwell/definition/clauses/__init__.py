"""What every format may have, compiled once for all: waits, calls, forks and joins, limits, triggers."""

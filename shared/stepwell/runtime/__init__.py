"""The loop around the core: ports, advance, coordinator, step executor. Knows no AWS names and no database."""

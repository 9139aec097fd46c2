"""The ports in memory, for tests and simulations. For one thread; nothing is durable."""

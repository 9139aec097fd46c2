"""The testing kit: workflows in memory, with virtual time and mocked steps. See `kit.Stepwell`."""

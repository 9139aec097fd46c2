"""The testing kit: workflows in memory, under virtual time, with steps mocked by name. See `kit.Stepwell`."""

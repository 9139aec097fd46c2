"""The parts of docs/ that are drawn from the code, and the test that holds them to it."""

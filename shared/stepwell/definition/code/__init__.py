"""The code of a workflow folder, read without running it: what its functions take, and the mistakes in it."""

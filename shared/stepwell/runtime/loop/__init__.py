"""The loop: effects are performed, inputs are put, steps are run; and the sweeper that finds who stands still."""

"""The loop: performs effects, puts inputs, runs steps; and the sweeper, which finds runs that stand still."""

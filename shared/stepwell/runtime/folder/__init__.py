"""A folder of workflows: reads and checks its definitions and its code, and packs it for a deployment."""

"""The compilers of the formats: a timeline, nodes, a DAG of steps, and the actions of an agent."""

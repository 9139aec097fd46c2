"""Amazon States Language: its expressions and states, compiled to the graph."""

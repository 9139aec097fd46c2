"""What the API shows of a run: its view, history, branches, drawing and explanation, read off its log."""

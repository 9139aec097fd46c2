"""CEL, the language of conditions and templates: its parser, and its evaluator within a budget of work and memory."""

"""The functional core: records, the transition table, fold, decide, commit, effects.

Standard library only; no clock, no I/O, no randomness except arguments.
"""

"""Runs users' code: finding functions, binding input, time limits that interrupt, errors as data."""

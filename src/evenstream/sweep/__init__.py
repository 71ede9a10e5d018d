"""Experiments: tables of many runs, written down in a file."""

"""Experiments: tables of many runs, described in a file."""

"""Tools for the repository: stored results, tables of the paper, the documentation site."""

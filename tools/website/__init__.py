"""The documentation site: `python -m tools.website`, which is what `make docs` runs."""

"""The report of a comparison: methods on one stream, in the terminal and on a page."""

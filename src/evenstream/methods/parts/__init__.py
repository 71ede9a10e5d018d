"""Building blocks that methods share, and self-contained mathematics."""

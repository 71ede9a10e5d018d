"""Building blocks that several methods share, each written once."""

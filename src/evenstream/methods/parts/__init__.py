"""Building blocks that methods share, and mathematics that stands by itself."""

"""Data sets of image files, decoded on demand and found in the layouts of their sources."""

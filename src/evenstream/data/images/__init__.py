"""Data sets of image files: decoded when asked for, found in the layouts of their sources."""

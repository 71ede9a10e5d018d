"""Copies of what runs write down, for TensorBoard and MLflow; the run folder stays the truth."""

from evenstream.track.following import Tracking, read_names

__all__ = ["Tracking", "read_names"]

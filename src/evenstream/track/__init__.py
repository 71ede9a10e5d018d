"""Copies of what runs write down, for TensorBoard and MLflow; the run folder stays the truth."""

from evenstream.track.tracking import Tracking, read_names

__all__ = ["Tracking", "read_names"]

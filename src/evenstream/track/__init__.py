"""Copies what runs record to TensorBoard and MLflow; the run folder stays authoritative."""

from evenstream.track.tracking import Tracking, read_names

__all__ = ["Tracking", "read_names"]

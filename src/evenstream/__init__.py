"""evenstream: online continual learning with Logit Adjusted Softmax."""

__version__ = "0.1.0"

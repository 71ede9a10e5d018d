"""Everything slow to load in a worker process; see `workers.py`. It must not start a thread."""

import torch

import evenstream.run.runner  # noqa: F401

if torch.version.cuda is None and torch.version.hip is None:  # nothing before this may touch a GPU
    import torch._dynamo  # the first step of any optimiser loads it

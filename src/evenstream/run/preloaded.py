"""All that takes long to load in a worker process; see `workers.py`. It must start no thread."""

import torch

import evenstream.run.runner  # noqa: F401

if torch.version.cuda is None and torch.version.hip is None:  # nothing may touch a GPU before
    import torch._dynamo  # the first step of any optimiser loads it

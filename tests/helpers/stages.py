"""A network with a classifier after each stage."""

import torch
from torch import nn

from evenstream.testing import DIM

SIZES = (3, 5)


class Stages(nn.Module):
    """Two stages, with everything that has state."""

    def __init__(self, dim=DIM, dropout=0.2):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.one = nn.Sequential(nn.Linear(dim, 3), nn.BatchNorm1d(3), nn.ReLU())
            self.two = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(dropout))
        self.all = False

    def use_exits(self):
        self.all = True
        return SIZES

    def forward(self, x):
        first = self.one(x)
        last = self.two(first)
        return torch.cat([first, last], 1) if self.all else last

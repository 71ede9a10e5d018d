"""The multilayer perceptron used for MNIST."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.functional import relu

from evenstream.networks.feature_extractor import FeatureExtractor


class MLP(FeatureExtractor):
    """Flatten, then two ReLU layers; Xavier-uniform weights and zero biases.

    With a head of ten outputs this is Mammoth's 784-100-100-10 network for MNIST.
    """

    def __init__(self, input_shape: tuple[int, ...], hidden: int = 100) -> None:
        super().__init__()
        self.num_features = hidden
        self.fc1 = nn.Linear(math.prod(input_shape), hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        for layer in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        return relu(self.fc2(relu(self.fc1(x.flatten(1)))))

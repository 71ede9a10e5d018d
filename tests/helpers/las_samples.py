"""Logit Adjusted Softmax with given counts or weights."""

import math

import torch

from evenstream import LogitAdjustedSoftmax
from evenstream.policies.priors import PriorEstimator


class Fixed(PriorEstimator):
    """Weights given in advance: counts or frequencies."""

    def __init__(self, weights):
        self.given = torch.as_tensor(weights)

    def observe(self, labels, n_classes):
        pass

    def weights(self):
        return self.given


def labels_of(counts):
    return torch.tensor([c for c, count in enumerate(counts) for _ in range(count)])


def with_counts(counts, **options):
    criterion = LogitAdjustedSoftmax(**options)
    criterion.observe(labels_of(counts), len(counts))
    return criterion


def loss_and_gradient(criterion, logits, y):
    z = torch.tensor([logits], requires_grad=True)
    loss = criterion.score(z, torch.tensor([y]))
    loss.backward()
    return loss.item(), z.grad[0]


def brute_force(z, y, weights, tau):
    """Eq. 6 by the letter, in float64, class by class."""
    z = [float(v) for v in z]
    if tau == 0:
        return -z[y] + math.log(sum(math.exp(v) for v in z))
    total = 0.0
    for c, w in enumerate(weights):
        if math.isinf(tau):
            total += 0.0 if w < weights[y] else w / weights[y] * math.exp(z[c] - z[y])
        elif w > 0:
            total += (w / weights[y]) ** tau * math.exp(z[c] - z[y])
    return math.log(total)

"""Inner products of per-sample gradients of the plain cross-entropy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from evenstream.learner.classifier import Classifier


def head_errors(network: Classifier, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """δ = softmax - onehot and the features h: the head's gradient of a row is δ ⊗ [h, 1]."""
    with torch.no_grad():
        features = network.features(x)
        logits = network.logits(features)
    return logits.softmax(1) - F.one_hot(y, logits.shape[1]), features


def head_gradients(network: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of each row's loss with respect to head weight and bias, flattened."""
    delta, features = head_errors(network, x, y)
    extended = F.pad(features, (0, 1), value=1.0)
    return torch.einsum("nc,nd->ncd", delta, extended).flatten(1)


def full_gradients(network: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of each row's loss with respect to every trainable parameter, flattened.

    The network must be in eval mode: with batch statistics a row has no gradient of its own.
    """
    parameters = {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}

    def loss(values: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(network, values, (row.unsqueeze(0),))
        return F.cross_entropy(logits, label.unsqueeze(0))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return torch.cat([g.flatten(1) for g in gradients.values()], 1)

"""Gradients of plain cross-entropy, per row and for the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from evenstream.core.classifier import Classifier
from evenstream.core.heads import CosineHead, cosines
from evenstream.core.passes import BACKWARD, FORWARD


def head_gradients(network: Classifier, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of each row's loss with respect to head weight and bias, flattened; the logits.

    A linear head's gradient of a row is δ ⊗ [h, 1], with δ = softmax - onehot and the features h.
    """
    with torch.no_grad():
        features = network.features(x)
        logits = network.logits(features)
    delta = logits.softmax(1) - F.one_hot(y, logits.shape[1])
    if isinstance(network.head, CosineHead):
        of_logits = _logit_gradients(network.head, features, network.width)
        return (delta.unsqueeze(2) * of_logits).flatten(1), logits
    extended = F.pad(features, (0, 1), value=1.0)
    return torch.einsum("nc,nd->ncd", delta, extended).flatten(1), logits


def _logit_gradients(head: CosineHead, features: Tensor, width: int | None) -> Tensor:
    """For each row and class, the gradient of the logit by its weight, s/‖w‖ · (ĥ - cos · ŵ)."""
    weight = head.weight[:width].detach()
    norms: Tensor = weight.norm(dim=1, keepdim=True)
    along = cosines(features, weight).unsqueeze(2) * (weight / norms)
    across = F.normalize(features, dim=1).unsqueeze(1) - along
    return across * (head.scale.detach() / norms)


def mean_head_gradient(network: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of the mean loss with respect to head weight and bias, flattened."""
    return head_gradients(network, x, y)[0].mean(0)


def full_gradients(network: Classifier, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of each row's loss by all trainable parameters, flattened; the logits."""
    gradients, logits = named_gradients(network, x, y)
    return torch.cat([g.flatten(1) for g in gradients.values()], 1), logits


def named_gradients(network: Classifier, x: Tensor, y: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Gradient of each row's loss with respect to every trainable parameter, by name; the logits.

    The network must be in eval mode: with batch statistics a row has no gradient of its own.
    """
    per_row = vmap(grad(_loss(network), has_aux=True), in_dims=(None, 0, 0))
    with _float32(network), _both_ways(network, x):
        gradients, logits = per_row(_trainable(network), x.unsqueeze(1), y.unsqueeze(1))
    return gradients, logits.squeeze(1)


def mean_full_gradient(network: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of the mean loss with respect to every trainable parameter, in one backward pass."""
    with _float32(network), _both_ways(network, x):
        gradients, _ = grad(_loss(network), has_aux=True)(_trainable(network), x, y)
    return torch.cat([g.flatten() for g in gradients.values()])


@contextmanager
def _float32(network: Classifier) -> Iterator[None]:
    """Disable autocast: PyTorch cannot map BatchNorm over rows in bfloat16."""
    dtype, network.dtype = network.dtype, torch.float32
    try:
        yield
    finally:
        network.dtype = dtype


def _both_ways(network: Classifier, x: Tensor) -> AbstractContextManager[None]:
    """Count a forward and a backward pass, which are invisible inside `torch.func`."""
    return network.passes.instead((FORWARD + BACKWARD) * len(x))


def _trainable(network: Classifier) -> dict[str, Tensor]:
    return {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}


def _loss(
    network: Classifier,
) -> Callable[[dict[str, Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The mean loss as a function of the parameters, and the logits."""

    def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = functional_call(network, values, (x,))
        return F.cross_entropy(logits, y), logits

    return loss

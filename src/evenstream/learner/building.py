"""Making the classifier once the first batch has shown what the inputs look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream import networks
from evenstream.augment import Preprocess
from evenstream.core.classifier import Classifier, evaluation_mode, laid_out
from evenstream.core.heads import Head
from evenstream.core.randomness import derive_seed
from evenstream.core.room import check_room
from evenstream.errors import InputError
from evenstream.files import given_path
from evenstream.networks.feature_extractor import FeatureExtractor
from evenstream.networks.weights import load_weights
from evenstream.options import Options


def build_classifier(
    model: str | nn.Module,
    raw: Tensor,
    preprocess: Preprocess,
    options: Options,
    head: Head,
    weights: Path | None,
) -> Classifier:
    """A named network, or the user's module, with a growing head on its features.

    The weights of a named network are drawn, or come from a file.
    """
    sample = preprocess.plain(raw[:1])
    if isinstance(model, nn.Module):
        backbone = model
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(options.seed, "init"))
            backbone = networks.build(model, tuple(sample.shape[1:]))
        if weights is not None:
            load_weights(backbone, weights)
    backbone.to(raw.device)
    if sample.ndim == 4 and isinstance(model, str) and isinstance(backbone, FeatureExtractor):
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    layout = torch.channels_last if _is_channels_last(backbone) else torch.contiguous_format
    preprocess.train(raw[:1], torch.Generator())  # refuses what it cannot augment
    features = _feature_size(backbone, laid_out(sample, layout))
    needed = options.head_size * (features + 1) * torch.float32.itemsize
    check_room(f"head_size={options.head_size:,}", needed, raw.device)
    rows = head.build(features, options.seed, options.head_size)
    return Classifier(backbone, rows.to(raw.device), getattr(torch, options.dtype), layout).train()


def weights_file(path: Any) -> Path:
    """Where a file of weights is that a user gave."""
    file = given_path("weights", path).absolute()
    if not file.is_file():
        raise InputError(f"there is no file {path} to take weights from")
    return file


def _is_channels_last(module: nn.Module) -> bool:
    """Whether a user's module was brought to that layout; others may rely on the usual one."""
    return any(
        p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous()
        for p in module.parameters()
        if not is_lazy(p) and p.ndim == 4
    )


def _feature_size(backbone: nn.Module, sample: Tensor) -> int:
    """Ask the module what it makes of one row; it must be a vector."""
    try:
        with evaluation_mode(backbone):
            features = backbone(sample)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        shape = tuple(sample.shape[1:])
        raise InputError(f"the model cannot take inputs of shape {shape}: {error}") from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        raise InputError("the model must turn a batch of inputs into one feature vector a row")
    return features.shape[1]

"""Builds the classifier once the first batch has shown what the inputs look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream import networks
from evenstream.augment import Preprocess
from evenstream.core.classifier import Classifier, evaluation_mode, laid_out
from evenstream.core.heads import Exits, GrowingHead, Head
from evenstream.core.passes import multiplications
from evenstream.core.randomness import derive_seed
from evenstream.core.room import check_room
from evenstream.errors import InputError, shown
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

    The weights of a named network are drawn or loaded from a file.
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
    layout = layout_of(backbone)
    preprocess.train(raw[:1], torch.Generator())  # rejects what it cannot augment
    exits = _exits(backbone) if isinstance(head, Exits) else ()
    with multiplications(backbone) as work:
        features = _feature_size(backbone, laid_out(sample, layout))
    needed = options.head_size * (features + 1) * torch.float32.itemsize
    check_room(f"head_size={options.head_size:,}", needed, raw.device)
    made: Any = (
        head.build_exits(exits, options.seed, options.head_size)
        if isinstance(head, Exits)
        else head.build(features, options.seed, options.head_size)
    )
    if not isinstance(made, GrowingHead):
        what = f"{type(head).__name__}.build"
        raise InputError(f"{what} must return a GrowingHead, but returned {shown(made)}")
    built = Classifier(backbone, made.to(raw.device), getattr(torch, options.dtype), layout)
    built.backbone_work = sum(work)
    return built.train()


def weights_file(path: Any) -> Path:
    """The path of a weights file given by the user."""
    file = given_path("weights", path).absolute()
    if not file.is_file():
        raise InputError(f"there is no weights file {path}")
    return file


def _exits(backbone: nn.Module) -> tuple[int, ...]:
    """Let a network return the features of all its stages; returns the number of each."""
    use = getattr(backbone, "use_exits", None)
    if use is None:
        raise InputError(
            "head=exits needs a network with stages to exit after, such as resnet18, or a "
            "module with a method use_exits() that returns the number of features of each"
        )
    return tuple(use())


def layout_of(module: nn.Module) -> torch.memory_format:
    """Channels last if the user's module uses it; others may rely on the usual layout."""
    channels_last = any(
        p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous()
        for p in module.parameters()
        if not is_lazy(p) and p.ndim == 4
    )
    return torch.channels_last if channels_last else torch.contiguous_format


def _feature_size(backbone: nn.Module, sample: Tensor) -> int:
    """The length of the feature vector that the module returns for one row."""
    try:
        with evaluation_mode(backbone):
            features = backbone(sample)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        shape = tuple(sample.shape[1:])
        raise InputError(f"the model cannot take inputs of shape {shape}: {error}") from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        raise InputError("the model must turn a batch of inputs into one feature vector per row")
    return features.shape[1]

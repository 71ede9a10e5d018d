"""The classifier a learner trains: a feature extractor and a head that grows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from evenstream.core.edits import Regrouping
from evenstream.core.heads import ExitsHead, GrowingHead
from evenstream.core.optimizers import replace_parameter
from evenstream.core.passes import Passes


class Classifier(nn.Module):
    """Features followed by a head. Features may use bfloat16 (autocast); logits are float32."""

    def __init__(
        self,
        backbone: nn.Module,
        head: GrowingHead,
        dtype: torch.dtype,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__()
        self.backbone, self.head, self.dtype = backbone, head, dtype
        self.layout = layout
        """Memory format of the images passed to the backbone."""
        self.width: int | None = None
        """Number of classes in the softmax: those seen so far, or None for every row of the
        head."""
        norms = [m for m in backbone.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self._norms = tuple(norms)
        self.passes = Passes()
        """Counts the passes through it and its copies."""
        self.backbone_work = 0.0
        """Multiplications of the backbone for one row; 0 if unknown."""
        self.front_work = 0.0
        """Multiplications of a frozen part in front of it, which counts as well."""

    def features(self, x: Tensor) -> Tensor:
        """Features in float32."""
        with (
            torch.autocast(x.device.type, self.dtype, enabled=self.dtype != torch.float32),
            single_row_statistics(self._norms if self.training else (), x.shape[0]),
        ):
            features: Tensor = self.backbone(laid_out(x, self.layout)).float()
        self.passes.of(x.shape[0], features, self.backbone_share)
        return features

    def logits(self, features: Tensor) -> Tensor:
        """Logits of given features, in float32."""
        with torch.autocast(features.device.type, enabled=False):
            out: Tensor = self.head(features, self.width)
        self.passes.of(features.shape[0], out, self.head_share)
        return out

    @property
    def exits(self) -> int:
        """Number of classifiers on the features of its stages; 0 for a plain head."""
        return len(self.head.sizes) if isinstance(self.head, ExitsHead) else 0

    def exit_logits(self, exit: int, features: Tensor) -> Tensor:
        """Logits of one of several exits."""
        assert isinstance(self.head, ExitsHead)
        with torch.autocast(features.device.type, enabled=False):
            out = self.head.exit_logits(exit, features, self.width)
        self.passes.of(features.shape[0], out, self.head_share / self.exits)
        return out

    @property
    def backbone_share(self) -> float:
        """The backbone's share of the work on a row; all of it if unknown."""
        return self.backbone_work / self.work if self._known else 1.0

    @property
    def head_share(self) -> float:
        """The head's share of it."""
        return self.head.weight.numel() / self.work if self._known else 0.0

    @property
    def work(self) -> float:
        """Multiplications for one row, from the inputs to the logits."""
        return self.front_work + self.backbone_work + self.head.weight.numel()

    @property
    def _known(self) -> bool:
        return self.front_work + self.backbone_work > 0

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.logits(self.features(x))


def laid_out(x: Tensor, layout: torch.memory_format) -> Tensor:
    """Images in the given memory format, even with one channel, where PyTorch confuses them.

    Modules that reshape with `view` rely on the usual one.
    """
    if x.ndim != 4:
        return x
    if layout == torch.contiguous_format and x.stride(1) <= x.stride(3):
        return x.clone(memory_format=layout)
    return x.contiguous(memory_format=layout)


def frozen_copy(network: Classifier) -> Classifier:
    """A copy in eval mode without gradients, for teachers and previous models."""
    return copy.deepcopy(network).eval().requires_grad_(False)


def regroup_head(
    module: Classifier | GrowingHead,
    classes: Regrouping,
    optimizers: Iterable[torch.optim.Optimizer],
) -> None:
    """Remove a class from a head and from the optimisers' state for it.

    When classes are merged, the remaining one keeps its row.
    """
    head = module.head if isinstance(module, Classifier) else module
    old = head.weight, head.bias
    kept = head.drop(classes.gone, classes.seen)
    for before, after in zip(old, (head.weight, head.bias), strict=True):
        if after is not before:
            for optimizer in optimizers:
                replace_parameter(optimizer, before, after, kept)
    if isinstance(module, Classifier) and module.width is not None:
        module.width = classes.count(module.width)


@contextmanager
def single_row_statistics(norms: tuple[nn.Module, ...], rows: int) -> Iterator[None]:
    """Let BatchNorm accept a single row: a layer with one value per channel uses running
    statistics.

    PyTorch rejects such a row in train mode, because its variance is zero, but a stream may well
    contain one.
    """
    if rows != 1 or not norms:
        yield
        return

    def use_running(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if module.training and args[0].numel() == args[0].shape[1]:
            module.eval()
            switched.append(module)

    switched: list[nn.Module] = []
    handles = [module.register_forward_pre_hook(use_running) for module in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in switched:
            module.train()


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every module returns to its previous mode."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training

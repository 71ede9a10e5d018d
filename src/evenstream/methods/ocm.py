"""OCM: preserve what views of rotated images share, with each other and the previous model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from evenstream.augment import Latents
from evenstream.bounds import Fading, Positive, Share, Within
from evenstream.core.edits import WHOLE, by_name
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows, joint_view
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.contrast import nt_new, nt_same
from evenstream.methods.parts.projection import PROJECTION, add_projection
from evenstream.methods.parts.rotations import pseudo_labels, rotations
from evenstream.methods.parts.two_views import TwoViews
from evenstream.policies.teachers import TaskEndTeacher, Teacher

PREVIOUS = "previous_projection"
REPLAYED = "replayed"


@register("ocm")
@dataclass
class OCM(TwoViews):
    """Contrastive mutual information between two views of images transformed in sixteen ways.

    Each transformation of an image makes its own class. From the second task on, the head learns
    from replayed rows only, and the model stays close to its copy from the end of the last task.
    """

    citation = "Guo et al., Online Continual Learning through Mutual Information Maximization, 2022"
    cost = "F(32b+33m) + G(32b+33m) + F(17m), first task F(33b) + G(33b)"
    trained_groups = ("network", PROJECTION)
    follows = by_name({PROJECTION: WHOLE, PREVIOUS: WHOLE})
    logits_follow_criterion = False
    why_not_exits = "most of its loss is on features, not logits"
    own_view = "resized-crop0.3{size}+flip+gray0.25"

    temperature: Annotated[float, Within(0.001)] = 0.07
    """T of the contrastive losses."""
    projection: Positive = 128
    """Dimensions of the linear projection; at most as many as the features have."""
    later_weight: Share = 0.5
    """Factor on the similarities after the first task; the public code has 0.5 for CIFAR-10."""
    beta2: Fading = 0.99
    """Adam's second beta, as in the public code; PyTorch's own default is 0.999. SGD ignores it."""

    def make_teacher(self) -> Teacher:
        """The previous model: a copy from the end of the last task."""
        return TaskEndTeacher()

    @property
    def previous(self) -> Teacher:
        """The network from the end of the last task."""
        assert self.teacher is not None
        return self.teacher

    def on_setup(self, learner: LearnerState) -> None:
        """Create the second view and the projection."""
        super().on_setup(learner)
        size = learner.network.head.in_features
        add_projection(self, learner, nn.Linear(size, min(size, self.projection)))

    def on_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Adam gets the betas of the public code."""
        for group in optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (group["betas"][0], self.beta2)

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """The previous model has a projection too."""
        if PROJECTION in self.modules:
            self.modules[PREVIOUS] = self.rebuild_module(learner, PREVIOUS)

    def rebuild_module(self, learner: LearnerState, name: str) -> nn.Module:
        """A frozen copy of the projection."""
        return copy.deepcopy(self.modules[PROJECTION]).requires_grad_(False)

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """What the head learns from: the batch in the first task, replayed rows afterwards."""
        rows = step.incoming
        if self.previous.network is not None and len(replayed := step.retrieve()):
            rows = step.notes[REPLAYED] = replayed
        return [replace(rows, preprocess=self.augmented, made=None)]

    def loss(self, step: Step) -> Tensor:
        """The head's loss, the contrast of new rows, and the consistency of replayed rows."""
        (rows,) = step.groups
        logits = step.net(rows.x)
        loss = step.ce(logits, rows.y)
        groups = [step.incoming, *([step.notes[REPLAYED]] if REPLAYED in step.notes else [])]
        views = [self.two_views(turned(group, step.n_classes)) for group in groups]
        features = step.network.features(joint_view([view for pair in views for view in pair]))
        new, old = torch.tensor_split(features, [2 * len(views[0][0])])

        weight = self.later_weight if len(old) else 1.0
        similarities = self.similarities(new, weight, step.randomness.method)
        loss = loss + nt_new(similarities, views[0][0].y.repeat(2), self.temperature)
        if len(old):
            plain, _ = views[1]
            similarities = self.similarities(old, weight, step.randomness.method)
            loss = loss + nt_same(similarities, plain.y.repeat(2), self.temperature)
            before = self.embed(self.previous.outputs(plain.x)[0], PREVIOUS)
            now = self.embed(old[: len(plain)], PROJECTION)
            loss = loss + nt_same(now @ before.T, plain.y, self.temperature)
            known = self.previous.outputs(rows.x)[1]
            loss = loss + F.mse_loss(logits[:, : self.previous.known], known)
        return loss

    def similarities(self, features: Tensor, weight: float, generator: Generator) -> Tensor:
        """Similarities of embeddings with each other and with a random window of the features.

        The features have length one as a whole, not within the window.
        """
        embeddings = self.embed(features, PROJECTION)
        size = embeddings.shape[1]
        first = int(torch.randint(features.shape[1] - size + 1, (), generator=generator))
        window = F.normalize(features, dim=1)[:, first : first + size]
        return weight * embeddings @ (window + embeddings).T

    def embed(self, features: Tensor, projection: str) -> Tensor:
        """Projected features of length one."""
        return F.normalize(self.modules[projection](features), dim=1)


def turned(rows: Rows, n_classes: int) -> Rows:
    """Images in sixteen versions, with a label for each; other inputs stay unchanged."""
    if rows.raw.dim() != 4 or isinstance(rows.preprocess, Latents):
        return rows
    y = pseudo_labels(rows.y, n_classes)
    return Rows(rotations(rows.raw), y, rows.preprocess, rows.generator)

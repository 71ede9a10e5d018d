"""PEC: each class has a small network that imitates a random one; the best imitation wins."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor, Positive
from evenstream.core.classes import pad_classes
from evenstream.core.criterion import Need
from evenstream.core.edits import PerClass, Regrouping, by_name
from evenstream.core.heads import Head
from evenstream.core.optimizers import Adam, learning_rate
from evenstream.core.randomness import derive_seed
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method, register
from evenstream.methods.parts.imitation import (
    imitation_network,
    remaining_share,
    squared_errors,
    stack_weights,
)
from evenstream.policies.rules import InferenceContext, InferenceRule, Outputs

TEACHER, UNTRAINED = "teacher", "untrained"
SEEN, ANNOUNCED = "seen", "announced"


def student_of(label: int) -> str:
    """The name of a class's student and its optimiser."""
    return f"student-{label}"


@register("pec")
@dataclass
class PEC(Method):
    """Students learn a frozen random network's outputs, each on the rows of its own class only.

    An input is assigned to the class whose student has the smallest error on it. No student ever
    sees another class, so nothing is forgotten and the order of the classes does not matter. The
    learner's own network is not used. Published with batches of one sample.
    """

    citation = (
        "Zając et al., Prediction Error-based Classification for Class-Incremental Learning, 2024"
    )
    cost = "F(b) + G(b) of students and F(b) of a teacher, instead of the network's"
    uses_memory = False
    why_not_exits = "it does not train the network"
    why_not_las = (
        "it trains no softmax: a class's rows move the network of that class only, so class "
        "frequencies cannot bias the others"
    )
    follows = by_name({SEEN: PerClass(added=True), ANNOUNCED: PerClass(added=True)})

    student_lr: Factor = 0.01
    """Learning rate of the students' Adam."""
    schedule: Literal["linear", "constant"] = "linear"
    """linear: a student's rate falls to 0 over the samples of its class in the task, whose number
    must be known in advance. constant: needs nothing from the stream."""
    hidden: Positive = 10
    """Hidden units of a student."""
    teacher_width: Positive = 500
    """Hidden units of the teacher for each hidden unit of a student."""
    outputs: Positive = 99
    """Outputs of teacher and students."""

    @property
    def needs(self) -> frozenset[Need]:
        """The number of samples per class, only if the rate depends on it."""
        return frozenset({"boundaries", "label_counts"} if self.schedule == "linear" else ())

    def make_rule(self) -> InferenceRule:
        """The students predict."""
        return SmallestError(self)

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Other rules use a network that is not trained."""
        if isinstance(rule, SmallestError):
            return None
        return f"pec does not train the network that the rule {rule.name} uses; leave the rule out"

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The incoming batch only."""
        return [step.incoming]

    def loss(self, step: Step) -> None:
        """None for the network: the students learn after the batch has been predicted."""

    def after_step(self, step: Step) -> None:
        """One step for each student whose class is in the batch."""
        x, y = step.incoming.x, step.incoming.y
        with torch.no_grad():
            target = self.modules[TEACHER](x)
        for label in torch.unique(y).tolist():
            own, name = y == label, student_of(label)
            error = F.mse_loss(self.modules[name](x[own]), target[own])
            with learning_rate(self.optimizers[name], self.student_lr * self.rate(label)):
                step.update(error, name)
        if self.schedule == "linear":
            counts = torch.bincount(y, minlength=step.n_classes)
            self.tensors[SEEN] = counts + pad_classes(self.tensors[SEEN], step.n_classes)

    def rate(self, label: int) -> float:
        """Share of a class's learning rate that is left."""
        if self.schedule == "constant":
            return 1.0
        seen = pad_classes(self.tensors[SEEN], label + 1)
        return remaining_share(int(seen[label]), int(self.tensors[ANNOUNCED][label]))

    def on_setup(self, learner: LearnerState) -> None:
        """Draw the teacher and the initial weights of all students."""
        example = learner.kind_of_inputs.example().to(learner.device)
        inputs = learner.preprocess.plain(example).numel()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(learner.options.seed, "pec"))
            teacher = imitation_network(inputs, self.hidden * self.teacher_width, self.outputs)
            student = imitation_network(inputs, self.hidden, self.outputs)
        self.modules[TEACHER] = teacher.to(learner.device).requires_grad_(False)
        self.modules[UNTRAINED] = student.to(learner.device).requires_grad_(False)
        self.add_students(0, len(learner.labels))

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Add a student for each."""
        self.add_students(first, len(learner.labels))
        self.note_announced(learner)

    def add_students(self, first: int, last: int) -> None:
        """Add untrained students for the classes `first` to `last` (exclusive)."""
        for label in range(first, last):
            student = copy.deepcopy(self.modules[UNTRAINED]).requires_grad_(True)
            self.modules[student_of(label)] = student
            optimizer = Adam(student.parameters(), self.student_lr)
            self.optimizers[student_of(label)] = optimizer

    def regroup(self, classes: Regrouping) -> None:
        """Students of later classes move up; of merged classes, that of the remaining one stays."""
        self.tensors = {n: self.follows[n].regrouped(t, classes) for n, t in self.tensors.items()}
        students = range(len(self.optimizers))
        names = [student_of(label) for label in students if label != classes.gone]
        modules = {name: self.modules[name] for name in (TEACHER, UNTRAINED)}
        modules |= {student_of(label): self.modules[name] for label, name in enumerate(names)}
        optimizers = {student_of(label): self.optimizers[n] for label, n in enumerate(names)}
        self.modules, self.optimizers = modules, optimizers

    def on_epoch_start(self, learner: LearnerState) -> None:
        """Every pass over a task's data starts at the full rate."""
        self.tensors[SEEN] = torch.zeros(0, dtype=torch.int64, device=learner.device)
        self.note_announced(learner)

    def note_announced(self, learner: LearnerState) -> None:
        """The number of samples of each seen class in this task."""
        counts = learner.task_counts or {}
        announced = [counts.get(label, 0) for label in learner.labels]
        self.tensors[ANNOUNCED] = torch.tensor(announced, dtype=torch.int64, device=learner.device)


class SmallestError(InferenceRule):
    """Minus the mean squared error of each class's student: the best imitation wins."""

    reads_memory = False

    def __init__(self, method: PEC) -> None:
        self.__post_init__()
        self.method = method
        self.one_by_one = False

    def before_export(self) -> None:
        """Run the students one after another."""
        self.one_by_one = True

    def prepare(self, context: InferenceContext) -> Any:
        """The weights of all students, in the order of their classes."""
        return stack_weights([self.method.modules[name] for name in self.method.optimizers])

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """One pass of all students."""
        modules = self.method.modules
        target = modules[TEACHER](outputs.x)
        form = modules[UNTRAINED]
        return -squared_errors(form, prepared, outputs.x, target, self.one_by_one)

"""The loop: one step in the order of Algorithm 2, building and growing the network, scoring."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from evenstream.augment import Preprocess
from evenstream.composition import Composition, import_path
from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.inputs import InputKind
from evenstream.core.labels import Label, LabelMap
from evenstream.core.memory import Placement, X, Y
from evenstream.core.optimizers import OptimizerFactory
from evenstream.core.outputs import InferenceContext, outputs
from evenstream.core.part import Part, TaskData
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step, StepResult
from evenstream.errors import InputError
from evenstream.learner.building import build_classifier
from evenstream.methods import Method
from evenstream.options import Options
from evenstream.policies.rules import ArgMax
from evenstream.policies.storing import Reservoir


class Engine(LearnerState):
    """A learner's state with the loop that changes it; `Learner` is what users call.

    Args:
        composition: method, criterion, head, rule, retrieval and storing.
        model: a network's name, or a module.
        options: all other options.
        device: where network and memory live.
        weights: a file that a named network starts from.
        preprocess: scaling and augmentation of inputs.
        optimizer_factory: the user's own, in place of an optimiser by name.
    """

    def __init__(
        self,
        composition: Composition,
        model: str | nn.Module,
        options: Options,
        device: torch.device,
        *,
        weights: Path | None,
        preprocess: Preprocess,
        optimizer_factory: OptimizerFactory | None,
    ) -> None:
        self.composition, self.model, self.weights = composition, model, weights
        self.method, self.text = composition.method, composition.text
        self._parts = composition.parts
        super().__init__(
            options,
            device,
            parts=self._parts,
            criterion=composition.criterion,
            head=composition.head,
            retrieval=composition.retrieval,
            capacity=options.memory if self.method.uses_memory else 0,
            if_not_finite=self.method.if_not_finite,
            module=model if isinstance(model, nn.Module) else None,
            preprocess=preprocess,
            optimizer_factory=optimizer_factory,
        )
        self.criterion.start(options.seed)
        self.needs = composition.needs
        """What the stream must provide for the method and what it is composed of."""

    @property
    def unwritten(self) -> dict[str, str]:
        """All that no text can express, each by where it is defined; it is never saved."""
        own = {"optimizer": self.optimizer_factory, "augment": self.preprocess.function}
        found = {name: import_path(thing) for name, thing in own.items() if thing is not None}
        return {**self.composition.unwritten, **found}

    # ---- one step ------------------------------------------------------------------------------

    def learn_batch(self, raw: Tensor, values: list[Label], store: bool) -> StepResult:
        """Algorithm 2: retrieve, count, forward, backward, update the memory. In that order."""
        if "label_counts" in self.needs:
            self._check_announced(values)
        method, known = self.method, len(self.label_map)
        y = self.add_labels(values)
        incoming = Rows(raw.to(self.device), y, self.preprocess, self.randomness.augment)
        step = Step(self, self.composition.retrieval, incoming, known)
        put = self._store if store else self._keep_out
        if method.memory_first:
            put(step)
        step.groups = method.training_rows(step)
        self._observe(step)
        loss = method.loss(step)
        accuracy = self._prequential_accuracy(step)
        value = None
        if loss is not None:
            undoable = self._may_fail_later()
            value = self.update(loss, *method.trained_groups, undoable=undoable)
            self.trained.advance()
        method.after_step(step)
        if not method.memory_first:
            put(step)
        for part in self._parts[1:]:
            part.after_step(step)
        self.progress.step += 1
        return StepResult(
            step=self.step,
            loss=value,
            accuracy=accuracy,
            rows=sum(len(group) for group in step.groups),
            single_class=self.criterion.single_class,
        )

    def _check_announced(self, values: list[Label]) -> None:
        """Whoever relies on the task's label counts can make nothing of other labels."""
        announced = LabelMap(label for label, n in (self.task_counts or {}).items() if n)
        for label in values:
            if announced.get(label) is None:
                raise InputError(
                    f"label {label!r} arrived, but start_task's label_counts said that this task "
                    "does not have it"
                )

    def _observe(self, step: Step) -> None:
        """The criterion sees exactly the labels of the rows this step trains on, once."""
        labels = step.labels()
        if not len(labels):
            return
        if "label_counts" in self.criterion.needs:
            replayed = sum(len(group) for group in step.groups if group.slots is not None)
            stream, memory = self._task_histogram(), self.memory.class_counts
            self.criterion.set_task_counts(stream, memory, len(labels) - replayed, replayed)
        width = step.network.head.out_features if self.softmax_over_all else step.n_classes
        self.criterion.observe(labels, width)

    def _task_histogram(self) -> Tensor:
        """The task's label counts, by class index; labels that have not arrived are left out."""
        counts = torch.zeros(len(self.label_map), device=self.device)
        for label, count in (self.task_counts or {}).items():
            index = self.label_map.get(label)
            if index is not None:
                counts[index] = count
        return counts

    def _may_fail_later(self) -> bool:
        """Whether something after the main update could still refuse the step."""
        hooked = any(type(part).after_step is not Part.after_step for part in self._parts)
        chooses = type(self.method).stored_rows is not Method.stored_rows
        return hooked or chooses or type(self.composition.storing) is not Reservoir

    def _store(self, step: Step) -> None:
        """Offer the incoming rows (or those the method chose) to the memory."""
        if self.memory.capacity == 0:
            return
        chosen = self.method.stored_rows(step)
        offered = step.incoming if chosen is None else step.incoming.take(chosen)
        placed = step.placed = self.composition.storing.place(step, offered)
        values = {X: offered.raw[placed.rows], Y: offered.y[placed.rows], **placed.fields}
        for name, value in step.remembered.items():
            kept = value if chosen is None else value[chosen]
            values[name] = kept[placed.rows]
        self.memory.put(placed.slots, values)

    def _keep_out(self, step: Step) -> None:
        """Leave the memory as it is."""
        nothing = torch.empty(0, dtype=torch.long, device=self.device)
        step.placed = Placement(nothing, nothing)

    def _prequential_accuracy(self, step: Step) -> float | None:
        """Accuracy on the incoming rows by the model before the update."""
        rule = self.composition.rule
        if not rule.asked_each_step:
            return None
        if step.known == 0:
            return 0.0
        scores = step.logits_of(step.incoming)
        if scores is None or not isinstance(rule, ArgMax):
            scores = self.infer(step.network, step.incoming.raw)
        right = scores[:, : step.known].argmax(1) == step.incoming.y
        return float(right.float().mean())

    # ---- building and growing ------------------------------------------------------------------

    def build(self, raw: Tensor) -> None:
        """Make the network for the first batch: its shape was not known before."""
        self.memory.check_room(raw)
        network = build_classifier(
            self.model, raw, self.preprocess, self.options, self.head, self.weights
        )
        optimizer, scheduler = self.network_optimizer(network)
        self.trained.set(network, optimizer, InputKind.of(raw), scheduler)
        for part in self._parts:
            part.on_setup(self)

    def add_labels(self, values: list[Label]) -> Tensor:
        """Class indices of labels; new ones get a row in the head, all else stays."""
        known = len(self.label_map)
        y = torch.tensor(self.label_map.add(values), device=self.device)
        if len(self.label_map) > known:
            self.grow_head(len(self.label_map))
            for part in self._parts:
                part.on_new_classes(self, known)
        return y

    # ---- tasks ---------------------------------------------------------------------------------

    def show(self, raw: Tensor, values: list[Label]) -> TaskData:
        """A task's data for the hooks, its labels in the head."""
        raw = raw.to(self.device)
        if not self.built:
            self.build(raw)
        return TaskData(raw, self.add_labels(values))

    def begin_task(self, rows: tuple[Tensor, list[Label]] | None) -> list[int]:
        """Tell the parts that a task begins; returns the rows that the method holds out."""
        shown = None if rows is None else self.show(*rows)
        held_out = self.method.on_task_start(self, shown)
        for part in self._parts[1:]:
            part.on_task_start(self, shown)
        self.begin_epoch()
        return list(held_out or ())

    def begin_epoch(self) -> None:
        """Tell the parts that a pass over the task's data begins."""
        for part in self._parts:
            part.on_epoch_start(self)

    def finish_task(self, rows: tuple[Tensor, list[Label]] | None) -> None:
        """Tell the parts that the task is over."""
        shown = None if rows is None else self.show(*rows)
        for part in self._parts:
            part.on_task_end(self, shown)

    # ---- scoring -------------------------------------------------------------------------------

    def infer(self, network: Classifier, raw: Tensor) -> Tensor:
        """Scores of the seen classes by the inference rule, in eval mode, in batches."""
        rule = self.composition.rule
        with evaluation_mode(network):
            prepared = rule.prepare(InferenceContext(network, self.memory, self.preprocess))
            parts = [rule.scores(out, prepared).float() for out in outputs(self, network, raw)]
        return torch.cat(parts)

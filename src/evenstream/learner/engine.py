"""The loop: one step in the order of Algorithm 2, building and growing the network, scoring."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evenstream.augment import Preprocess
from evenstream.choosing import AUTO, choose, made_for
from evenstream.composition import Composition, held_by
from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.heads import Exits
from evenstream.core.inputs import Batch, InputKind, check_inputs
from evenstream.core.known_table import timeless
from evenstream.core.labels import Label, LabelMap
from evenstream.core.memory import ID, WEIGHT, Placement, X, Y
from evenstream.core.optimizers import OptimizerFactory
from evenstream.core.outputs import InferenceContext, OutputsOnDemand, outputs
from evenstream.core.part import TaskData
from evenstream.core.progress import Waiting
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.stateful import Stateful
from evenstream.core.step import Step, StepResult
from evenstream.errors import InputError
from evenstream.learner.arrival import Arrival
from evenstream.learner.building import build_classifier
from evenstream.learner.front import Front
from evenstream.methods.base import Method
from evenstream.options import Options
from evenstream.policies.rules import ArgMax

log = logging.getLogger(__name__)


class Engine(LearnerState):
    """A learner's state and the loop that changes it; users call `Learner`.

    Args:
        composition: method, criterion, head, rule, retrieval and storing.
        model: a network's name, or a module.
        options: all other options.
        device: where network and memory live.
        weights: a file that a named network starts from.
        preprocess: scaling and augmentation of inputs.
        front: the frozen part before the network, if there is one.
        optimizer_factory: the user's own, in place of a named optimiser.
        undecided: options that are chosen together with an "auto" network.
    """

    method: Method

    def __init__(
        self,
        composition: Composition,
        model: str | nn.Module,
        options: Options,
        device: torch.device,
        *,
        weights: Path | None,
        preprocess: Preprocess,
        front: Front | None,
        optimizer_factory: OptimizerFactory | None,
        undecided: frozenset[str] = frozenset(),
    ) -> None:
        self.undecided = undecided
        self.composition, self.model, self.weights = composition, model, weights
        self.front, self.outer = front, preprocess
        self._encoded = 0
        """Rows passed to the frozen part that are not counted yet."""
        self.method, self.text = composition.method, composition.text
        self._parts = composition.parts
        super().__init__(
            options,
            device,
            method=composition.method,
            parts=self._parts,
            criterion=composition.criterion,
            head=composition.head,
            retrieval=composition.retrieval,
            capacity=options.memory if self.method.uses_memory else 0,
            stored={**composition.storing.follows, **self.method.stored},
            if_not_finite=self.method.if_not_finite,
            module=model if isinstance(model, nn.Module) else None,
            preprocess=preprocess if front is None else front.latents,
            optimizer_factory=optimizer_factory,
        )
        self.criterion.start(options.seed)
        self.held = {n: held for n, thing in self.unwritten.items() if (held := held_by(thing))}
        """What functions without a text form held when they were given, as text."""
        self.needs = composition.needs
        """What the method and its parts need from the stream."""

    @property
    def unwritten(self) -> dict[str, object]:
        """Everything that text cannot express; it is never saved."""
        own = {"optimizer": self.optimizer_factory, "augment": self.outer.function}
        found = {name: thing for name, thing in own.items() if thing is not None}
        return {**self.composition.unwritten, **found}

    @property
    def pieces(self) -> dict[str, Stateful]:
        """All state, including that of a frozen part."""
        front = {} if self.front is None else {"front": self.front}
        return {**front, **super().pieces}

    # ---- inputs --------------------------------------------------------------------------------

    @property
    def input_kind(self) -> InputKind | None:
        """Shape and type of the inputs to `learn`; None before the first batch."""
        return super().input_kind if self.front is None else self.front.kind

    @property
    def model_text(self) -> str | None:
        """The network as text for `Learner(model=...)`; None if there is no text form."""
        if self.front is not None:
            return self.front.frozen.text
        return self.model if isinstance(self.model, str) else None

    def check(self, x: Any) -> Batch:
        """A private copy of inputs; rejects unusable ones."""
        rows, _ = self.known_table.take(x, self.input_kind)
        if self.front is not None:
            return self.front.check(rows, self.known_table.advice)
        return check_inputs(rows, self.input_kind, self.known_table.advice)

    def encode(self, batch: Batch) -> Tensor:
        """What is stored and trained on: the frozen part's outputs for arriving rows."""
        if self.front is None:
            assert isinstance(batch, Tensor)
            return batch
        raw = self.front.train(batch, self.randomness.augment).cpu()
        self._encoded += len(batch) * (1 + self.front.frozen.views)
        if self.built and InputKind.of(raw) != self.kind_of_inputs:
            raise InputError(
                f"the frozen {self.front.frozen.title} returned rows of shape "
                f"{tuple(raw.shape[1:])}, but {self.kind_of_inputs.shape} before"
            )
        return raw

    def _count_encoded(self) -> None:
        """Count the forward passes of the frozen part, once its share is known."""
        network = self.network
        self.passes.add(self._encoded * network.front_work / network.work)
        self._encoded = 0

    def prepare(self, x: Any) -> None:
        """Build the network for inputs like these, without learning from them."""
        self.build(self.encode(self.check(x)).to(self.device))

    # ---- one step ------------------------------------------------------------------------------

    def learn_batch(self, batch: Waiting, store: bool) -> StepResult:
        """Algorithm 2: retrieve, count, forward, backward, update the memory. In that order."""
        if "label_counts" in self.needs:
            self._check_announced(batch.labels)
        method, known = self.method, len(self.label_map)
        y, raw = self.add_labels(batch.labels), batch.rows.to(self.device)
        self._count_encoded()
        beside = {WEIGHT: batch.weights, ID: batch.ids}
        own = {
            name: values.to(self.device) for name, values in beside.items() if values is not None
        }
        incoming = Rows(raw, y, self.preprocess, self.randomness.augment, fields=own)
        arrival = Arrival(self, self.composition.retrieval, incoming, known, method.own_steps)
        put = self._store if store else self._keep_out
        if not store:
            arrival.mark_as_learned_before()
        if method.memory_first:
            put(arrival)
        results = []
        for step in arrival.steps:
            last = step is arrival.steps[-1]
            results.append(self._train(step, undoable=not last or self._may_fail_later()))
            if last and not method.memory_first:
                put(arrival)
            for part in self._parts[1:]:
                part.after_step(step)
        self.progress.step += 1
        self.tickets.expire(self.step)
        return arrival.result(self.step, results)

    def _train(self, step: Step, undoable: bool) -> StepResult:
        """One update of the weights."""
        method = self.method
        step.groups = method.training_rows(step)
        self._observe(step)
        loss = self._loss(step)
        self.composition.rule.before_update(step)
        self._calibrate(step)
        accuracy = self._prequential_accuracy(step)
        value = None
        if loss is not None:
            value = self.update(loss, *method.trained_groups, undoable=undoable)
            self.trained.advance()
        method.after_step(step)
        return StepResult(
            step=step.number,
            loss=value,
            accuracy=accuracy,
            rows=sum(len(group) for group in step.groups),
            single_class=self.criterion.single_class,
        )

    def _loss(self, step: Step) -> Tensor | None:
        """The method's loss, or that of each exit of the network."""
        if not isinstance(self.head, Exits):
            return self.method.loss(step)
        losses = []
        for exit in range(step.network.exits):
            step.exit = exit
            losses.append(self.method.loss(step))
        step.exit = None
        made = [loss for loss in losses if loss is not None]
        return self.head.weigh(made) if made else None

    def _check_announced(self, values: list[Label]) -> None:
        """Reject labels that are not among the announced label counts."""
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
        """The task's label counts by class index, without labels that have not arrived."""
        counts = torch.zeros(len(self.label_map), device=self.device)
        for label, count in (self.task_counts or {}).items():
            index = self.label_map.get(label)
            if index is not None:
                counts[index] = count
        return counts

    def _may_fail_later(self) -> bool:
        """Whether something after the main update could still reject the step."""
        late = [part.may_refuse_late for part in self._parts]
        return any(late) or self.trained.may_refuse_late or self.composition.storing.may_refuse_late

    def _store(self, arrival: Arrival) -> None:
        """Offer the incoming rows (or those the method chose) to the memory."""
        if self.memory.capacity == 0:
            return
        chosen, incoming = arrival.stored_rows(self.method), arrival.whole.incoming
        offered = incoming if chosen is None else incoming.take(chosen)
        placed = self.composition.storing.place(arrival.whole, offered)
        arrival.set_placed(placed)
        values = {X: offered.raw[placed.rows], Y: offered.y[placed.rows], **placed.fields}
        for name, value in arrival.remembered().items():
            kept = value if chosen is None else value[chosen]
            values[name] = kept[placed.rows]
        self.memory.put(placed.slots, values)

    def _keep_out(self, arrival: Arrival) -> None:
        """Leave the memory unchanged."""
        nothing = torch.empty(0, dtype=torch.long, device=self.device)
        arrival.set_placed(Placement(nothing, nothing))

    def _prequential_accuracy(self, step: Step) -> float | None:
        """Accuracy on the incoming rows by the model before the update."""
        rule = self.composition.rule
        if not rule.asked_every or step.number % rule.asked_every:
            return None
        if step.known == 0:
            return 0.0
        scores = step.logits_of(step.incoming) if isinstance(rule, ArgMax) else None
        if scores is None:
            with self.passes.set_aside():
                scores = self._scores_of_step(step)
        right = scores[:, : step.known].argmax(1) == step.incoming.y
        return float(right.float().mean())

    def _calibrate(self, step: Step) -> None:
        """Record how familiar rows of known classes look to the model before the update.

        When they came does not count: rows to predict come later than all that were learned.
        """
        rule, rows, kept = self.composition.rule, step.incoming, self.calibration
        due = step.number % rule.familiar_every == 0
        fair = rows.y < step.known
        if not due or step.again or not bool(fair.any()):
            return
        groups = [group for group in step.groups if group.slots is not None]
        with self.passes.set_aside(), evaluation_mode(step.network):
            if rule.familiarity_scale != tuple(kept.scale.tolist()):
                groups = self._change_scale() or groups
            when = self._when
            out, seen = step.outputs, self._timeless(rows, when)
            if out is None or seen is not None:
                x = rows.plain() if seen is None else seen
                out = OutputsOnDemand(step.network, x, step.n_classes)
            prepared = rule.prepare_for_step(self._context(step.network))
            found = rule.familiarity_for_step(out, prepared)
            if found is not None:
                kept.add(found[fair].cpu(), rows.y[fair].cpu(), step.number)
            self._calibrate_by(groups, when, step.number)

    def recalibrate(self) -> None:
        """Measure again after a correction, which may change how familiar every row looks.

        Where stored rows cannot be measured, the scores stay; the next step drops them if the scale
        has changed.
        """
        if not len(self.calibration.counts):
            return
        with self.passes.set_aside(), evaluation_mode(self.network):
            if self._measurable():
                self._calibrate_by(self._change_scale(), self._when, self.step)

    def _change_scale(self) -> list[Rows]:
        """Drop scores that are no longer comparable; returns stored rows to measure instead."""
        kept, stored = self.calibration, self._measurable()
        scale = self.composition.rule.familiarity_scale
        kept.change_scale(scale, forget=bool(stored) or scale[0] != float(kept.scale[0]))
        return stored

    def _measurable(self) -> list[Rows]:
        """All stored rows, if the rule can measure them as if they had never been learned."""
        memory = self.memory
        if not len(memory):
            return []
        slots = torch.arange(len(memory), device=memory.device)
        own = {name: values.to(self.device) for name, values in memory.rows(slots).items()}
        raw, y = own.pop(X), own.pop(Y)
        rows = Rows(raw, y, self.preprocess, self.randomness.augment, slots, own)
        told = self.composition.rule.familiarity_left_out(rows.take(slots[:1])) is not None
        return [rows] if told else []

    def _calibrate_by(self, groups: list[Rows], when: Tensor | None, step: int) -> None:
        """Record how familiar these stored rows look, each as if it had never been learned."""
        for group in groups:
            found = None
            if len(group):
                seen = self._timeless(group, when)
                found = self.composition.rule.familiarity_left_out(group, seen)
            if found is not None:
                self.calibration.add(found.cpu(), group.y.cpu(), step)

    @property
    def _when(self) -> Tensor | None:
        """The time at which all rows are judged, if a column holds times."""
        return None if self.front is not None else self.known_table.when(self.memory)

    def _timeless(self, rows: Rows, when: Tensor | None) -> Tensor | None:
        """The plain rows as if all had come then."""
        if when is None:
            return None
        return self.preprocess.plain(timeless(rows.raw, when.to(rows.raw.device)))

    def _scores_of_step(self, step: Step) -> Tensor:
        """Scores of the incoming rows by the inference rule."""
        rule, outputs = self.composition.rule, step.outputs
        if outputs is None:
            return self.infer(step.network, step.incoming.raw, rule.prepare_for_step)
        with evaluation_mode(step.network):
            return rule.scores(outputs, rule.prepare_for_step(self._context(step.network)))

    # ---- building and growing ------------------------------------------------------------------

    def decide(self, shape: tuple[int, ...]) -> None:
        """Choose network and options for inputs of this shape, unless given."""
        if self.model != AUTO:
            return
        choice = choose(shape if self.front is None else shape[:1])
        training = {n: value for n, value in choice.training().items() if n in self.undecided}
        self.model = made_for(self.text, ()).get("network", choice.network)
        self.options, self.undecided = replace(self.options, **training), frozenset()

    def adopt(self, model: Any, options: Mapping[str, Any]) -> None:
        """Use a saved learner's values for what was neither given nor chosen yet."""
        if self.model == AUTO and isinstance(model, str):
            taken = {name: options[name] for name in self.undecided}
            self.model, self.undecided = model, frozenset()
            self.options = replace(self.options, **taken)

    @property
    def decided(self) -> tuple[Any, ...]:
        """What the first batch may decide."""
        return self.model, self.options, self.undecided

    def undecide(self, before: tuple[Any, ...]) -> None:
        """Restore what was `decided` before a batch that was rejected."""
        self.model, self.options, self.undecided = before

    def build(self, raw: Tensor) -> None:
        """Build the network for the first batch, which determines its shape."""
        self.decide(tuple(raw.shape[1:]))
        self.memory.check_room(raw)
        network = build_classifier(
            self.model, raw, self.preprocess, self.options, self.head, self.weights
        )
        network.passes = self.passes
        network.front_work = 0.0 if self.front is None else self.front.work or 0.0
        optimizer, scheduler = self.network_optimizer(network)
        self.trained.set(network, optimizer, InputKind.of(raw), scheduler)
        for part in self._parts:
            part.on_setup(self)
        log.info("%s: network made for inputs of shape %s", self.text, tuple(raw.shape[1:]))

    def add_labels(self, values: list[Label]) -> Tensor:
        """Class indices of labels; new ones get a row in the head."""
        known = len(self.label_map)
        y = torch.tensor(self.label_map.add(values), device=self.device)
        if len(self.label_map) > known:
            self.grow_head(len(self.label_map))
            for part in self._parts:
                part.on_new_classes(self, known)
            new = len(self.label_map) - known
            log.info("%s: %d new classes, %d in all", self.text, new, len(self.label_map))
        return y

    # ---- tasks ---------------------------------------------------------------------------------

    def show(self, batch: Batch, values: list[Label]) -> TaskData:
        """A task's data for the hooks, with its labels added to the head."""
        raw = self.encode(batch).to(self.device)
        if not self.built:
            self.build(raw)
        return TaskData(raw, self.add_labels(values))

    def begin_task(self, rows: tuple[Batch, list[Label]] | None) -> list[int]:
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

    def finish_task(self, rows: tuple[Batch, list[Label]] | None) -> None:
        """Tell the parts that the task is over."""
        shown = None if rows is None else self.show(*rows)
        for part in self._parts:
            part.on_task_end(self, shown)

    # ---- scoring -------------------------------------------------------------------------------

    def _context(self, network: Classifier) -> InferenceContext:
        return InferenceContext(network, self.memory, self.preprocess)

    def infer(
        self,
        network: Classifier,
        raw: Tensor,
        prepare: Callable[[InferenceContext], Any] | None = None,
    ) -> Tensor:
        """Scores for the seen classes by the inference rule, in eval mode, in batches.

        `prepare` is the rule's own method of that name, or its cheaper one for steps.
        """
        rule = self.composition.rule
        with evaluation_mode(network):
            prepared = (prepare or rule.prepare)(self._context(network))
            parts = [rule.scores(out, prepared).float() for out in outputs(self, network, raw)]
        return torch.cat(parts)

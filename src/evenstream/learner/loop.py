"""One step of the loop, in the order of Algorithm 2, and the one place that updates weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from evenstream.errors import InputError, NonFiniteLoss, UnknownName
from evenstream.interruption import let_through
from evenstream.learner.labels import Label, LabelMap
from evenstream.learner.memory import X, Y
from evenstream.learner.part import Part
from evenstream.learner.prediction import infer
from evenstream.learner.rows import Rows
from evenstream.learner.step import Step, StepResult
from evenstream.methods.base import Method
from evenstream.slots.inference import ArgMax
from evenstream.slots.updates import Placement, Reservoir

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner


def learn_batch(learner: Learner, raw: Tensor, values: list[Label], store: bool) -> StepResult:
    """Algorithm 2: retrieve, count, forward, backward, update the memory. In that order."""
    if "label_counts" in learner.needs:
        _check_announced(learner, values)
    known = len(learner.label_map)
    y = learner.add_labels(values)
    raw = raw.to(learner.device)
    step = Step(learner, Rows(raw, y, learner.preprocess, learner.randomness.augment), known)
    put = _store if store else _keep_out
    if learner.method.memory_first:
        put(learner, step)
    step.groups = learner.method.training_rows(step)
    _observe(learner, step)
    loss = learner.method.loss(step)
    accuracy = _prequential_accuracy(learner, step)
    value = None
    if loss is not None:
        groups, undoable = learner.method.trained_groups, _may_fail_later(learner)
        value = update(learner, loss, groups, undoable)
    learner.method.after_step(step)
    if not learner.method.memory_first:
        put(learner, step)
    for part in learner.parts[1:]:
        part.after_step(step)
    learner.step += 1
    return StepResult(
        step=learner.step,
        loss=value,
        accuracy=accuracy,
        rows=sum(len(group) for group in step.groups),
        single_class=learner.criterion.single_class,
    )


def _observe(learner: Learner, step: Step) -> None:
    """The criterion sees exactly the labels of the rows this step trains on, once."""
    labels = step.labels()
    if not len(labels):
        return
    if "label_counts" in learner.criterion.needs:
        replayed = sum(len(group) for group in step.groups if group.slots is not None)
        stream = _task_histogram(learner, step)
        memory = learner.memory.class_counts
        learner.criterion.tell(stream, memory, len(labels) - replayed, replayed)
    width = step.network.head.out_features if learner.wide else step.n_classes
    learner.criterion.observe(labels, width)
    learner.undo["window"] = learner.criterion.forget_last


def _task_histogram(learner: Learner, step: Step) -> Tensor:
    """The task's label counts, by class index; labels that have not arrived are left out."""
    counts = torch.zeros(step.n_classes, device=learner.device)
    for label, count in (learner.task_counts or {}).items():
        index = learner.label_map.get(label)
        if index is not None:
            counts[index] = count
    return counts


def _check_announced(learner: Learner, values: list[Label]) -> None:
    """Whoever relies on the task's label counts can make nothing of other labels."""
    announced = LabelMap(label for label, n in (learner.task_counts or {}).items() if n)
    for label in values:
        if announced.get(label) is None:
            raise InputError(
                f"label {label!r} arrived, but start_task's label_counts said that this task "
                "does not have it"
            )


def update(learner: Learner, loss: Tensor, groups: Sequence[str], undoable: bool) -> float:
    """One backward, then a step of each group's optimiser, unless loss or gradient are not finite.

    `undoable` if something may still refuse the learner's step after it. Returns the loss.
    """
    parts = [_group(learner, name) for name in groups]
    for optimizer, parameters in parts:
        if undoable:
            learner.about_to_change(parameters, optimizer)
        optimizer.zero_grad(set_to_none=True)
    trained = [p for _, parameters in parts for p in parameters]
    torch.autograd.backward(loss, inputs=trained)
    gradients = [p.grad for p in trained if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    value, size = torch.stack([loss.detach(), norm.to(loss)]).tolist()  # one wait for the device
    _check_finite(learner, "loss", value)
    _check_finite(learner, "gradient's norm", size)
    let_through()
    for optimizer, _ in parts:
        optimizer.step()
    for parameter in trained:
        parameter.grad = None
    return float(value)


def _check_finite(learner: Learner, what: str, value: float) -> None:
    if not math.isfinite(value):
        raise NonFiniteLoss(
            f"the {what} is {value} at step {learner.step + 1}; the step was not made. "
            f"{learner.method.if_not_finite}, normalise the inputs, or go back to a checkpoint"
        )


def _group(learner: Learner, name: str) -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
    """The optimiser and the trainable parameters of a named group."""
    assert learner.network is not None and learner.optimizer is not None
    if name == "head":
        return learner.optimizer, [p for p in learner.network.head.parameters() if p.requires_grad]
    if name != "network" and name not in learner.method.optimizers:
        raise UnknownName("group", name, ["network", "head", *learner.method.optimizers])
    optimizer = learner.optimizer if name == "network" else learner.method.optimizers[name]
    parameters = [p for part in optimizer.param_groups for p in part["params"]]
    return optimizer, [p for p in parameters if p.requires_grad]


def _may_fail_later(learner: Learner) -> bool:
    """Whether something after the main update could still refuse the step."""
    hooked = any(type(part).after_step is not Part.after_step for part in learner.parts)
    chooses = type(learner.method).stored_rows is not Method.stored_rows
    return hooked or chooses or type(learner.method.update) is not Reservoir


def _store(learner: Learner, step: Step) -> None:
    """Offer the incoming rows (or those the method chose) to the memory."""
    if learner.memory.capacity == 0:
        return
    chosen = learner.method.stored_rows(step)
    offered = step.incoming if chosen is None else step.incoming.take(chosen)
    placed = step.placed = learner.method.update.place(step, offered)
    values = {X: offered.raw[placed.rows], Y: offered.y[placed.rows], **placed.fields}
    for name, value in step.remembered.items():
        kept = value if chosen is None else value[chosen]
        values[name] = kept[placed.rows]
    learner.memory.put(placed.slots, values)


def _keep_out(learner: Learner, step: Step) -> None:
    """Leave the memory as it is."""
    nothing = torch.empty(0, dtype=torch.long, device=learner.device)
    step.placed = Placement(nothing, nothing)


def _prequential_accuracy(learner: Learner, step: Step) -> float | None:
    """Accuracy on the incoming rows by the model before the update."""
    rule = learner.method.inference
    if not rule.asked_each_step:
        return None
    if step.known == 0:
        return 0.0
    scores = step.logits_of(step.incoming)
    if scores is None or not isinstance(rule, ArgMax):
        scores = infer(learner, step.network, step.incoming.raw)
    right = scores[:, : step.known].argmax(1) == step.incoming.y
    return float(right.float().mean())

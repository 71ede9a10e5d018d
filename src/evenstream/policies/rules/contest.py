"""The network and closed forms learn side by side; the stream decides which one predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evenstream.bounds import Positive, Share
from evenstream.core.classifier import evaluation_mode
from evenstream.core.edits import PerClass, by_name
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.core.part import Correction
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.policies.closed_forms import (
    ClosedForm,
    Discriminant,
    ProjectedRidge,
    Solution,
)
from evenstream.policies.retrieval import HELD_OUT
from evenstream.policies.rules.rule import InferenceRule, register_rule

FORMS = SLDA, RANPAC = "slda", "ranpac"
NETWORK = "network"
PAST = "replayed"
"""Counts about stored rows are saved under this name; they used to be counted when replayed."""
SCALE_ROWS = 300
"""Rows from which `ranpac` takes the scale of the columns."""
FEW_COLUMNS = 64
"""With up to this many columns, half the random features are enough."""
LOOK_EVERY, LOOK_AT = 4, 64
"""Stored rows are predicted every so many steps, this many at a time and in turn, so that a memory
of 1,000 takes 64 steps."""
LOOKS_BACK = 16
"""How many of these looks count; older ones fade. With more, results from when few classes were
known would outweigh what is known now."""


class Asked(NamedTuple):
    """Which contestant predicts: a closed form with its solution, or the network (None)."""

    form: ClosedForm | None
    solution: Solution | None


@register_rule("contest")
@dataclass
class Contest(InferenceRule):
    """On flat inputs `slda` and `ranpac` learn beside the network, and the best one predicts.

    Each contestant predicts every arriving row before anyone learns from it. Who was right is
    counted class by class, so that a frequent class does not decide alone. But arriving rows belong
    to classes that have only just appeared, and a network that leans towards these looks better
    than it is. Stored rows therefore count as much: closed forms predict each as if they had never
    seen it, and the network predicts those that were held out from training (by the method `auto`;
    other methods train on all rows, and a network that knows them by heart is flattered).

    The network predicts if it leads every closed form by more than `margin` in the mean of both
    counts, because closed forms forget nothing. Between closed forms, stored rows decide. If inputs
    are images, the network predicts.
    """

    follows = by_name(
        {
            f"{prefix}{name}": PerClass(1, added=True)
            for prefix in ("", f"{PAST} ")
            for name in (*FORMS, NETWORK)
        }
    )
    reads_memory = False

    margin: Share = 0.02
    """How much better the network must be."""
    reach: Positive = 200
    """How many arriving rows of each class count; older ones fade."""
    width: Positive = 2000
    """Random features of `ranpac`; half as many for up to 64 columns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.forms: dict[str, ClosedForm] = {
            SLDA: Discriminant(),
            RANPAC: ProjectedRidge(self.width, "columns", SCALE_ROWS),
        }
        self.inner = list(self.forms.values())
        self._flat = False
        self._means: dict[str, tuple[Tensor, float]] = {}

    def on_setup(self, learner: LearnerState) -> None:
        """Prepare closed forms for flat inputs, which they see without the network."""
        shape = learner.kind_of_inputs.shape
        self._flat = len(shape) == 1
        if not self._flat:
            return
        ridge = self.forms[RANPAC]
        assert isinstance(ridge, ProjectedRidge)
        if shape[0] <= FEW_COLUMNS:
            ridge.width = max(self.width // 2, 1)
        for form in self.forms.values():
            form.begin(learner, shape[0])

    # ---- who is right -------------------------------------------------------------------------

    def before_update(self, step: Step) -> None:
        """Let every contestant predict the arriving rows; count who is right, class by class."""
        if not self._flat or not step.known or step.again:
            return
        rows, y = step.incoming.plain().flatten(1), step.incoming.y
        stored = self._rows_to_look_at(step)
        replayed = [group for group in step.groups if group.slots is not None and len(group)]
        ridge = self.forms[RANPAC]
        assert isinstance(ridge, ProjectedRidge)
        ridge.expect(rows, *(each.plain().flatten(1) for each in (*replayed, *stored)))
        guesses = {
            name: form.guess_for_step(rows, step.n_classes) for name, form in self.forms.items()
        }
        fair = y < step.known  # no contestant can know a class that has just arrived
        logits = step.logits_of(step.incoming)
        guesses[NETWORK] = step.plain_outputs().logits if logits is None else logits
        for name, guess in guesses.items():
            right = guess[:, : step.known].argmax(1)[fair] == y[fair]
            self._count(name, right, y[fair], 1 - 1 / self.reach)
        for each in stored:
            self._look_back(step, each)

    def _rows_to_look_at(self, step: Step) -> list[Rows]:
        """The stored rows whose turn it is, if it is any's."""
        turn, size = step.number // LOOK_EVERY, len(step.memory)
        if step.number % LOOK_EVERY or not size:
            return []
        return [step.fetch((turn * LOOK_AT + torch.arange(min(LOOK_AT, size))) % size)]

    def _look_back(self, step: Step, stored: Rows) -> None:
        """Let everyone predict these stored rows."""
        for name, counts in self.tensors.items():
            if name.startswith(PAST):
                self.tensors[name] = counts * (1 - 1 / LOOKS_BACK)
        held = stored
        if HELD_OUT in stored.fields:
            held = stored.take(stored.fields[HELD_OUT].nonzero().squeeze(1))
        if len(held):
            with evaluation_mode(step.network):
                logits = step.network.logits(step.network.features(held.plain()))
            right = logits[:, : step.n_classes].argmax(1) == held.y
            self._count(f"{PAST} {NETWORK}", right, held.y)
        rows = stored.plain().flatten(1)
        for name, form in self.forms.items():
            guess = form.guess_left_out(rows, stored.y, step.n_classes)
            if guess is not None:  # None: too expensive
                self._count(f"{PAST} {name}", guess.argmax(1) == stored.y, stored.y)

    def _count(self, name: str, right: Tensor, y: Tensor, kept: float = 1.0) -> None:
        """Count the rows of each class and those that were right; older rows fade."""
        new = torch.zeros(2, int(y.max()) + 1 if len(y) else 0, dtype=torch.float64)
        new[0].index_add_(0, y.cpu(), torch.ones(len(y), dtype=torch.float64))
        new[1].index_add_(0, y.cpu(), right.cpu().double())
        before = self.tensors.get(name, new[:, :0])
        size = max(before.shape[1], new.shape[1])
        before, new = (torch.nn.functional.pad(t, (0, size - t.shape[1])) for t in (before, new))
        self.tensors[name] = before * kept ** new[0] + new

    def shares(self, *, past: bool = False) -> dict[str, float]:
        """The accuracy of each, averaged over classes, on arriving or on stored (past) rows."""
        of = f"{PAST} " if past else ""
        found = {name: self.tensors.get(of + name) for name in (*self.forms, NETWORK)}
        return {
            name: self._balanced(of + name, counts)
            for name, counts in found.items()
            if counts is not None
        }

    def _balanced(self, name: str, counts: Tensor) -> float:
        """The mean over classes, kept as long as the counts are."""
        known = self._means.get(name)
        if known is None or known[0] is not counts:
            self._means[name] = known = counts, _balanced(counts)
        return known[1]

    def best(self, forms: Sequence[str] = FORMS, *, network: bool = True) -> str:
        """The contestant that predicts now: one of these forms, or the network if allowed."""
        if not self._flat:
            return NETWORK
        arriving = dict.fromkeys(self.forms, 0.0) | self.shares()
        stored = self.shares(past=True)
        known = [name for name in forms if name in stored]
        ahead = [arriving.get(NETWORK, 0.0) - max(arriving[name] for name in forms)]
        if NETWORK in stored and known:
            ahead.append(stored[NETWORK] - max(stored[name] for name in known))
        if network and sum(ahead) / len(ahead) > self.margin:
            return NETWORK
        return max(forms, key=(stored if len(known) > 1 else arriving).__getitem__)

    # ---- predicting ---------------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Let the closed forms learn the arriving rows."""
        if self._flat and not step.again:
            rows = step.incoming.plain().flatten(1)
            for form in self.forms.values():
                form.take(rows, step.incoming.y, step.incoming.weights)

    def on_correction(self, learner: LearnerState, rows: Correction) -> None:
        """Correct the closed forms; counts of who was right do not change."""
        if self._flat:
            columns = learner.preprocess.plain(rows.raw).flatten(1)
            for form in self.forms.values():
                form.correct(columns, rows)

    def prepare(self, context: InferenceContext) -> Any:
        """The contestant that predicts, with the solution for all rows so far."""
        return self._asked(self.best())

    def _asked(self, name: str) -> Asked:
        form = self.forms.get(name)
        return Asked(form, None if form is None else form.current_solution())

    def prepare_for_step(self, context: InferenceContext) -> Any:
        """The contestant that predicts; closed forms avoid expensive solutions in their own way."""
        return Asked(self.forms.get(self.best()), None)

    def before_export(self) -> None:
        """Keep solutions only: nothing is learned after an export."""
        if self._flat:
            for form in self.forms.values():
                form.drop_rows()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """Log-probabilities of the contestant that predicts."""
        asked: Asked = prepared
        rows, n_classes = outputs.x.flatten(1), outputs.logits.shape[1]
        if asked.form is None:
            return outputs.logits.log_softmax(1)
        if asked.solution is None:
            return asked.form.guess_for_step(rows, n_classes)
        return asked.form.log_probabilities(rows, asked.solution, n_classes)

    @property
    def weighs_classes(self) -> bool:
        """As the contestant that predicts does."""
        form = self.forms.get(self.best())
        return form is None or form.why_no_priors is not None

    def why_no_priors(self, not_by_logits: str | None) -> str | None:
        """Where closed forms learn, one of them is always free of the stream's frequencies."""
        return None if self._flat else not_by_logits

    def prepare_for_priors(self, context: InferenceContext, *, by_logits: bool) -> Any:
        """The best of those whose scores are free of the stream's frequencies."""
        free = [name for name, form in self.forms.items() if form.why_no_priors is None]
        return self._asked(self.best(free, network=by_logits) if self._flat else NETWORK)

    @property
    def familiar_every(self) -> int:
        """Every step where the score is known anyway."""
        return 1 if self._flat else super().familiar_every

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The score of `ranpac`, whichever contestant predicts the label."""
        if self._flat:
            return self.forms[RANPAC].familiarity(outputs.x.flatten(1))
        return super().familiarity(outputs, prepared)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """That of `ranpac`."""
        return self.forms[RANPAC].familiarity_scale if self._flat else super().familiarity_scale

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same, cheap enough for a step."""
        if self._flat:
            return self.forms[RANPAC].familiarity_for_step(outputs.x.flatten(1))
        return super().familiarity_for_step(outputs, prepared)

    def familiarity_left_out(self, rows: Rows, seen: Tensor | None = None) -> Tensor | None:
        """The familiarity of stored rows, judged by everything learned since."""
        if not self._flat:
            return None
        ridge = self.forms[RANPAC]
        other = None if seen is None else seen.flatten(1)
        return ridge.familiarity_left_out(rows.plain().flatten(1), rows.y, rows.weights, other)

    def says(self) -> str | None:
        """Which contestant predicts now, and why."""
        counts = [
            f"{what}: " + ", ".join(f"{name} {share:.0%}" for name, share in sorted(found.items()))
            for what, past in (("on arriving rows", False), ("on stored rows", True))
            if (found := self.shares(past=past))
        ]
        if not counts:
            return None
        return f"{self.best()} predicts; right, class by class, {'; '.join(counts)}"


def _balanced(counts: Tensor) -> float:
    met = counts[0] > 0
    return float((counts[1, met] / counts[0, met]).mean()) if bool(met.any()) else 0.0

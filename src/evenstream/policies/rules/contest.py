"""The network and closed forms side by side; the stream decides which of them is asked."""

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
"""Counts about stored rows are saved under this name, from when they were counted as replayed."""
SCALE_ROWS = 300
"""Rows that decide about the scale of the columns for `ranpac`."""
FEW_COLUMNS = 64
"""Up to which half the random features will do."""
LOOK_EVERY, LOOK_AT = 4, 64
"""In how many steps stored rows are looked at once, and how many of them. In turn, so that a memory
of 1,000 is gone through in 64 steps."""
LOOKS_BACK = 16
"""Looks that count; older ones fade. More, and what is known now about a class would count less
than what was known when there were few classes to mistake it for."""


class Asked(NamedTuple):
    """Who is asked: a closed form with its solution, or the network (None)."""

    form: ClosedForm | None
    solution: Solution | None


@register_rule("contest")
@dataclass
class Contest(InferenceRule):
    """On flat inputs `slda` and `ranpac` learn beside the network, and the best of them is asked.

    Each predicts every arriving row before anyone learns from it, and it is counted who was right,
    class by class, so that a frequent class does not decide alone. But rows that arrive are of
    classes that have just begun, and a network that leans towards them looks better than it is. So
    stored rows of the past count as much: closed forms predict each as if they had never had it,
    and the network those that were held out from training (by the method `auto`; others train on
    all, so that the network knows them by heart, which flatters it). The network is asked if it is
    better than every closed form by more than `margin` in the mean of both: they forget nothing. Of
    the closed forms the one is asked that is better at rows of the past. Where inputs are images,
    the network is asked.
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
    """By how much the network must be better."""
    reach: Positive = 200
    """Arriving rows of each class that are looked back on; older ones fade."""
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
        """Closed forms look at flat inputs as they are, whatever the network makes of them."""
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
        """Let everyone predict the arriving rows, and count who is right about which class."""
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
        fair = y < step.known  # nobody can be right about a class that has just arrived
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
            if guess is not None:  # None: too dear
                self._count(f"{PAST} {name}", guess.argmax(1) == stored.y, stored.y)

    def _count(self, name: str, right: Tensor, y: Tensor, kept: float = 1.0) -> None:
        """Add to the rows of each class and to those that were right; each row makes older fade."""
        new = torch.zeros(2, int(y.max()) + 1 if len(y) else 0, dtype=torch.float64)
        new[0].index_add_(0, y.cpu(), torch.ones(len(y), dtype=torch.float64))
        new[1].index_add_(0, y.cpu(), right.cpu().double())
        before = self.tensors.get(name, new[:, :0])
        size = max(before.shape[1], new.shape[1])
        before, new = (torch.nn.functional.pad(t, (0, size - t.shape[1])) for t in (before, new))
        self.tensors[name] = before * kept ** new[0] + new

    def shares(self, *, past: bool = False) -> dict[str, float]:
        """How often each was right, the mean over classes: about arriving rows, or about stored."""
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
        """Who is asked now: one of these closed forms, or the network if it may be."""
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
        """The closed forms learn the arriving rows."""
        if self._flat and not step.again:
            rows = step.incoming.plain().flatten(1)
            for form in self.forms.values():
                form.take(rows, step.incoming.y, step.incoming.weights)

    def on_correction(self, learner: LearnerState, rows: Correction) -> None:
        """The closed forms follow; who was right about rows as they came stays."""
        if self._flat:
            columns = learner.preprocess.plain(rows.raw).flatten(1)
            for form in self.forms.values():
                form.correct(columns, rows)

    def prepare(self, context: InferenceContext) -> Any:
        """Who is asked, with the solution for all rows so far."""
        return self._asked(self.best())

    def _asked(self, name: str) -> Asked:
        form = self.forms.get(name)
        return Asked(form, None if form is None else form.prompt_solution())

    def prepare_for_step(self, context: InferenceContext) -> Any:
        """Who is asked; closed forms have their own way where a solution is dear."""
        return Asked(self.forms.get(self.best()), None)

    def before_export(self) -> None:
        """Whoever is asked has a solution."""
        if self._flat:
            for form in self.forms.values():
                form.drop_rows()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """Log-probabilities of the contestant that is asked."""
        asked: Asked = prepared
        rows, n_classes = outputs.x.flatten(1), outputs.logits.shape[1]
        if asked.form is None:
            return outputs.logits.log_softmax(1)
        if asked.solution is None:
            return asked.form.guess_for_step(rows, n_classes)
        return asked.form.log_probabilities(rows, asked.solution, n_classes)

    @property
    def weighs_classes(self) -> bool:
        """As the contestant that is asked does."""
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
        """At each step where it is known anyway."""
        return 1 if self._flat else super().familiar_every

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """What `ranpac` makes of it, whoever is asked for the label."""
        if self._flat:
            return self.forms[RANPAC].familiarity(outputs.x.flatten(1))
        return super().familiarity(outputs, prepared)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """That of `ranpac`."""
        return self.forms[RANPAC].familiarity_scale if self._flat else super().familiarity_scale

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same, as cheap as steps must be."""
        if self._flat:
            return self.forms[RANPAC].familiarity_for_step(outputs.x.flatten(1))
        return super().familiarity_for_step(outputs, prepared)

    def familiarity_left_out(self, rows: Rows, seen: Tensor | None = None) -> Tensor | None:
        """Of rows that came long ago, by all that came since."""
        if not self._flat:
            return None
        ridge = self.forms[RANPAC]
        other = None if seen is None else seen.flatten(1)
        return ridge.familiarity_left_out(rows.plain().flatten(1), rows.y, rows.weights, other)

    def says(self) -> str | None:
        """Who is asked now, and why."""
        told = [
            f"{what}: " + ", ".join(f"{name} {share:.0%}" for name, share in sorted(found.items()))
            for what, past in (("about rows to come", False), ("about stored ones", True))
            if (found := self.shares(past=past))
        ]
        return f"{self.best()} is asked; right, class by class, {'; '.join(told)}" if told else None


def _balanced(counts: Tensor) -> float:
    met = counts[0] > 0
    return float((counts[1, met] / counts[0, met]).mean()) if bool(met.any()) else 0.0

"""The network and closed forms side by side; the stream decides which of them is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evenstream.bounds import Positive, Share
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
from evenstream.policies.rules.rule import InferenceRule, register_rule

NETWORK, REPLAYED = "network", "replayed"
SCALE_ROWS = 300
"""Rows that decide about the scale of the columns for `ranpac`."""
FEW_COLUMNS = 64
"""Up to which half the random features will do."""
STEPS_BACK = 64
"""Steps whose replayed rows are looked back on. Longer, and what is known now about a class would
count less than what was known when there were few classes to mistake it for."""


class Asked(NamedTuple):
    """Who is asked: a closed form with its solution, or the network (None)."""

    form: ClosedForm | None
    solution: Solution | None


@register_rule("contest")
@dataclass
class Contest(InferenceRule):
    """On flat inputs `slda` and `ranpac` learn beside the network, and the best of them is asked.

    Each predicts every arriving row before anyone learns from it, and it is counted who was right,
    class by class, so that a frequent class does not decide alone. The network's share is no higher
    than on the rows that it replays, which shows what it has forgotten. It is asked if it is better
    than every closed form by more than `margin`: they forget nothing. Of the closed forms the one
    is asked that is better at the replayed rows, each left out of what it has learned: rows that
    arrive are of classes that have just begun, rows that are replayed of all. Where inputs are
    images, the network is asked.
    """

    follows = by_name(
        {
            f"{prefix}{name}": PerClass(1, added=True)
            for prefix in ("", f"{REPLAYED} ")
            for name in ("slda", "ranpac", NETWORK)
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
            "slda": Discriminant(),
            "ranpac": ProjectedRidge(self.width, "columns", SCALE_ROWS),
        }
        self.inner = list(self.forms.values())
        self._flat = False

    def on_setup(self, learner: LearnerState) -> None:
        """Closed forms look at flat inputs as they are, whatever the network makes of them."""
        shape = learner.kind_of_inputs.shape
        self._flat = len(shape) == 1
        if not self._flat:
            return
        ridge = self.forms["ranpac"]
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
        guesses = {
            name: form.guess_for_step(rows, step.n_classes) for name, form in self.forms.items()
        }
        fair = y < step.known  # nobody can be right about a class that has just arrived
        logits = step.logits_of(step.incoming)
        guesses[NETWORK] = step.plain_outputs().logits if logits is None else logits
        for name, guess in guesses.items():
            right = guess[:, : step.known].argmax(1)[fair] == y[fair]
            self._count(name, right, y[fair], 1 - 1 / self.reach)
        for name, counts in self.tensors.items():
            if name.startswith(REPLAYED):
                self.tensors[name] = counts * (1 - 1 / STEPS_BACK)
        for group in step.groups:
            if group.slots is not None and len(group):
                self._count_replayed(step, group)

    def _count_replayed(self, step: Step, group: Rows) -> None:
        """What is known of all that came before: closed forms predict a row as if they had not it.

        The network cannot, so that this flatters it.
        """
        rows = group.plain().flatten(1)
        guess = step.logits_of(group)
        if guess is not None:
            self._count(f"{REPLAYED} {NETWORK}", guess.argmax(1) == group.y, group.y)
        for name, form in self.forms.items():
            guess = form.guess_left_out(rows, group.y, step.n_classes)
            if guess is None:  # too dear: nobody can be compared by it
                break
            self._count(f"{REPLAYED} {name}", guess.argmax(1) == group.y, group.y)

    def _count(self, name: str, right: Tensor, y: Tensor, kept: float = 1.0) -> None:
        """Add to the rows of each class and to those that were right; each row makes older fade."""
        new = torch.zeros(2, int(y.max()) + 1 if len(y) else 0, dtype=torch.float64)
        new[0].index_add_(0, y.cpu(), torch.ones(len(y), dtype=torch.float64))
        new[1].index_add_(0, y.cpu(), right.cpu().double())
        before = self.tensors.get(name, new[:, :0])
        size = max(before.shape[1], new.shape[1])
        before, new = (torch.nn.functional.pad(t, (0, size - t.shape[1])) for t in (before, new))
        self.tensors[name] = before * kept ** new[0] + new

    def shares(self) -> dict[str, float]:
        """How often each was right about rows before it learned from them: the mean over classes.

        The network's is no more than on replayed rows.
        """
        found = {n: _balanced(self.tensors[n]) for n in (*self.forms, NETWORK) if n in self.tensors}
        kept = self.tensors.get(f"{REPLAYED} {NETWORK}")
        if kept is not None and NETWORK in found:
            found[NETWORK] = min(found[NETWORK], _balanced(kept))
        return found

    def best(self) -> str:
        """Who is asked now."""
        if not self._flat:
            return NETWORK
        shares = dict.fromkeys(self.forms, 0.0) | self.shares()
        if shares.get(NETWORK, 0.0) - max(shares[name] for name in self.forms) > self.margin:
            return NETWORK
        left_out = {name: self.tensors.get(f"{REPLAYED} {name}") for name in self.forms}
        known = {name: _balanced(each) for name, each in left_out.items() if each is not None}
        return max(self.forms, key=(known if len(known) == len(self.forms) else shares).__getitem__)

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
        form = self.forms.get(self.best())
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
        return form is None or form.weighs_classes

    @property
    def familiar_every(self) -> int:
        """At each step where it is known anyway."""
        return 1 if self._flat else super().familiar_every

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """What `ranpac` makes of it, whoever is asked for the label."""
        if self._flat:
            return self.forms["ranpac"].familiarity(outputs.x.flatten(1))
        return super().familiarity(outputs, prepared)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """That of `ranpac`."""
        return self.forms["ranpac"].familiarity_scale if self._flat else super().familiarity_scale

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same, as cheap as steps must be."""
        if self._flat:
            return self.forms["ranpac"].familiarity_for_step(outputs.x.flatten(1))
        return super().familiarity_for_step(outputs, prepared)

    def familiarity_left_out(self, rows: Rows) -> Tensor | None:
        """Of rows that came long ago, by all that came since."""
        if not self._flat:
            return None
        ridge = self.forms["ranpac"]
        return ridge.familiarity_left_out(rows.plain().flatten(1), rows.y, rows.weights)

    def says(self) -> str | None:
        """Who is asked now, and why."""
        shares = self.shares()
        if not shares:
            return None
        told = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items()))
        return f"{self.best()} is asked; right about rows to come, class by class: {told}"


def _balanced(counts: Tensor) -> float:
    met = counts[0] > 0
    return float((counts[1, met] / counts[0, met]).mean()) if bool(met.any()) else 0.0

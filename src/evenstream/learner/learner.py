"""The learner: the class that users call. Its state and the loop are in `engine` and below."""

from __future__ import annotations

import copy
import json
import logging
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray as Array
from torch import Tensor, nn

from evenstream import encoders, networks
from evenstream.augment import Augmentation, Preprocess
from evenstream.checkpoint import (
    from_bytes,
    has_checkpoint,
    restore,
    to_bytes,
    write_checkpoint,
)
from evenstream.choosing import AUTO, made_for
from evenstream.composition import compose, import_path
from evenstream.core.devices import resolve_device, resolve_dtype
from evenstream.core.drift import Adwin
from evenstream.core.heads import Head
from evenstream.core.ids import plain_ids, row_ids
from evenstream.core.inputs import Batch, check_weights, kind_of
from evenstream.core.labels import Label, plain_counts, plain_label, plain_labels
from evenstream.core.locks import GLOBAL_GENERATOR, Lock, one_at_a_time, one_step_at_a_time
from evenstream.core.optimizers import OPTIMIZERS, PLAIN, OptimizerFactory
from evenstream.core.part import Part
from evenstream.core.progress import Waiting, joined
from evenstream.core.state import FOLLOWS, RATIO
from evenstream.core.step import StepResult
from evenstream.core.tickets import MOST, STEPS
from evenstream.entries import entry
from evenstream.errors import (
    CheckpointError,
    DataWarning,
    DriftWarning,
    EvenstreamError,
    InputError,
    LearningWarning,
    NonFiniteLoss,
    NotLearning,
    UnknownName,
    shown,
)
from evenstream.files import exclusive, given_path, object_or_none, write_atomically
from evenstream.interruption import SignalsHeld
from evenstream.learner import editing
from evenstream.learner.building import weights_file
from evenstream.learner.editing import Edit
from evenstream.learner.engine import Engine
from evenstream.learner.front import Front
from evenstream.learner.frozen import Frozen
from evenstream.learner.persistence import (
    LIVE,
    OwnParts,
    learner_fingerprint,
    learner_state,
    load_learner_state,
    made_with,
)
from evenstream.learner.prediction import Costs
from evenstream.learner.shown import as_html, as_text, facts
from evenstream.learner.snapshot import Snapshot, Snapshots
from evenstream.learner.transaction import all_or_nothing
from evenstream.learner.watching import ADVICE, Watch
from evenstream.measures import METRICS
from evenstream.methods import Method
from evenstream.options import DType, Options, StepRows, TrainingOptions
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import AtTaskEnd, Storing
from evenstream.tabular import TableEncoder, TableRows, is_frame
from evenstream.text import split_options

log = logging.getLogger(__name__)

WARN_AFTER = 20
_SAY_KINDS = "Learner(table=TableEncoder.infer(frame, text=[...]))"
UNLOGGED = 1000
"""Corrections kept for a log that is written later."""


class Answers(NamedTuple):
    """What `ask` returns."""

    labels: Array[Any]
    """The labels, as `predict` returns them."""
    tickets: list[str]
    """One ticket per row, for `learn_later`."""


class Learner(Engine):
    """Learns a classifier online, from batches of any size, with labels that need not be known in
    advance.

    >>> learner = Learner("er-las", "mlp", memory=100)
    >>> result = learner.learn(np.random.rand(8, 4), ["cat", "dog"] * 4)
    >>> learner.labels
    ['cat', 'dog']
    >>> len(learner.predict(np.random.rand(3, 4)))
    3

    Any thread may call its methods at any time. Steps take turns, and predictions never wait for
    one: they answer as of the last complete step. After Ctrl-C, or any signal whose handler raises,
    a step has either happened completely or not at all; `step` tells you which.

    Args:
        method: a method such as `methods.MIR(subsample=64)`, or text that names one with its
            options: `NAME[:key=value,...][@RULE]`, as in "er-las:tau=2" or "er@ncm"
            (`evenstream methods` lists methods and inference rules).
            "auto" is `er-las`, joined by closed forms on flat inputs.
        model: "auto" looks at the first batch and chooses network, optimiser, learning rate and
            batch sizes, unless you set them (`print` shows what it chose, and why). Or the name of
            a network (mlp, convnet, resnet18, ...; see `evenstream.networks`), or any module that
            turns a batch of inputs into features; the classifier on top is added automatically and
            grows with the classes. Steps switch the whole network to training mode, predictions to
            eval mode. Or `Frozen(...)`, a pretrained network that stays fixed, followed by what is
            trained on its outputs; the name of a pretrained encoder (efficientnet-lite0, wordllama;
            see `evenstream.encoders`) means the same.
        criterion: the loss used for the method's cross-entropy term; appending `-las` to a method's
            name means `LogitAdjustedSoftmax()`.
        head: the head on the features (`evenstream.heads`); by default the method's own.
        predict: an inference rule (`evenstream.rules`) or its name; by default the method's own.
        retrieval: which stored rows are replayed (`evenstream.retrieval`).
        storing: which rows enter the memory (`evenstream.storing`).
        memory: samples kept for replay; 0 means no replay.
        lr: learning rate.
        batch: nominal size of an incoming batch (methods that size their replay by it use it;
            `learn` takes any size).
        replay_batch: stored samples replayed in each step.
        steps: updates for each batch; its rows are offered to the memory once, after the last.
        step_rows: with several steps, "micro" splits the batch and its replay into that many parts,
            and "repeat" trains on the whole batch each time, with a new view and new replay.
        optimizer: sgd, adam, adamw, muon, or a function that makes one from groups of parameters
            (`backbone` and `head`; if the method has its own modules, it is called again with a
            group `method`). It may return a pair of an optimizer and a torch scheduler, which is
            stepped with each update. `lr`, `momentum` and `weight_decay` apply to named optimisers.
        momentum: momentum of SGD.
        weight_decay: weight decay, with any optimiser.
        seed: seed for everything random.
        device: where the network and the memory live.
        dtype: "float32", "bfloat16" (autocast) or "auto": bfloat16 on CPUs with AMX.
        augment: "none", or parts joined by "+": crop, flip, resized-crop, jitter, gray,
            randaugment (see `evenstream.augment.PARTS`). Or a function of a batch of float images
            in 0..1, applied before `mean` and `std`; PyTorch's generator is then the learner's own.
        mean: subtracted from each channel after scaling uint8 to 0..1.
        std: each channel is divided by this.
        accumulate: collect rows until there are this many, then make one step with them (`flush`
            and `end_task` step with fewer, `discard` drops them).
        scope: classes in the softmax: "seen" so far, or "all" rows of the head.
        head_size: how many classes the head has room for from the start (it grows if needed).
        weights: a file that a named network starts from (.safetensors, .pth or .pt, with
            torchvision's names); it is read with the first batch, and the head is new.
        drift: `drift.Adwin()` watches accuracy, loss and inputs, and reports changes as a
            `DriftWarning`, in the step's result and to your own function.
        table: how the columns of tables become inputs, if not inferred from the first one.
        open_tickets: how many tickets of `ask` may wait for their labels.
        ticket_steps: for how many steps they may (`limit_tickets` changes both).
    """

    def __init__(
        self,
        method: str | Method = AUTO,
        model: str | nn.Module | Frozen = AUTO,
        *,
        criterion: CrossEntropy | None = None,
        head: Head | None = None,
        predict: InferenceRule | str | None = None,
        retrieval: Retrieval | None = None,
        storing: Storing | None = None,
        memory: int = 1000,
        lr: float | None = None,
        batch: int | None = None,
        replay_batch: int | None = None,
        steps: int | None = None,
        step_rows: StepRows = "micro",
        optimizer: str | OptimizerFactory | None = None,
        momentum: float = 0.0,
        weight_decay: float | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        dtype: DType = "auto",
        augment: str | Augmentation = "none",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        accumulate: int = 1,
        scope: Literal["seen", "all"] = "seen",
        head_size: int = 0,
        weights: str | Path | None = None,
        drift: Adwin | None = None,
        table: TableEncoder | None = None,
        open_tickets: int = MOST,
        ticket_steps: int = STEPS,
    ) -> None:
        if isinstance(model, str) and encoders.is_encoder(model):
            model = Frozen.read(model)
        trained = model.then if isinstance(model, Frozen) else model
        composition = compose(
            method,
            criterion=criterion,
            head=head,
            predict=predict,
            retrieval=retrieval,
            storing=storing,
        )
        decided, undecided = _training(
            method if isinstance(method, str) else composition.text,
            trained if isinstance(trained, str) else None,
            lr=lr,
            batch=batch,
            replay_batch=replay_batch,
            steps=steps,
            optimizer=optimizer,
            weight_decay=weight_decay,
        )
        optimizer = decided.pop("optimizer")
        where = resolve_device(device)
        preprocess = Preprocess(augment, mean, std)
        options = Options(
            memory=memory,
            **decided,
            step_rows=step_rows,
            optimizer=text_of(optimizer),
            momentum=momentum,
            seed=seed,
            device=str(where),
            dtype=resolve_dtype(dtype, where),
            augment=text_of(augment),
            mean=preprocess.mean,
            std=preprocess.std,
            accumulate=accumulate,
            scope=scope,
            head_size=head_size,
        )
        if isinstance(optimizer, str):
            OPTIMIZERS.find(optimizer)
        elif not callable(optimizer):
            raise InputError(
                "optimizer must be a name or a function that makes one from groups of parameters, "
                f"got {shown(optimizer)}"
            )
        self._owned: list[Part | CrossEntropy] = [*composition.parts, composition.criterion]
        for part in self._owned:
            if part.in_use:
                raise InputError(
                    f"this {type(part).__name__} belongs to another learner, and its state with "
                    "it; make a new one for each learner"
                )
        own = composition.method
        if "memory" in composition.needs and not (options.memory and own.uses_memory):
            raise InputError(
                f"{composition.text} cannot do without a memory, "
                + (
                    "and memory=0; give it room for some samples"
                    if own.uses_memory
                    else f"and {own.name} uses none; take another inference rule"
                )
            )
        reason = own.why_not_steps(options.step_rows) if options.steps > 1 else None
        if reason is not None:
            raise InputError(
                f"{composition.text} cannot make several steps a batch by "
                f"step_rows={options.step_rows}: {reason}"
            )
        front = None
        if isinstance(model, Frozen):
            front = Front(model, preprocess, where, getattr(torch, options.dtype))
            model = model.then
        if isinstance(model, str) and split_options(model)[0] not in (AUTO, *networks.NETWORKS):
            known, hint = [AUTO, *networks.NETWORKS, *encoders.ENCODERS], networks.NETWORKS.hint
            raise UnknownName("network", model, known, hint)
        if isinstance(model, str) and model != AUTO:
            networks.canonical_name(model)  # refuses unknown names and options
        if not isinstance(model, (str, nn.Module)):
            raise InputError(
                f"model must be a network's name, a torch module or Frozen(...), got {shown(model)}"
            )
        if weights is not None and (front is not None or isinstance(model, nn.Module)):
            raise InputError("weights are for named networks; load them into your module yourself")
        file = None if weights is None else weights_file(weights)
        super().__init__(
            composition,
            model,
            options,
            where,
            weights=file,
            preprocess=preprocess,
            front=front,
            optimizer_factory=None if isinstance(optimizer, str) else optimizer,
            undecided=undecided,
        )
        self.drifting.begin(drift)
        self.tickets.limit(open_tickets, ticket_steps, self.step)
        self.lock = Lock()
        self._snapshots = Snapshots()
        self._single_class_run = 0
        self._warned = False
        self._watch = Watch()
        self.unlogged: deque[dict[str, Any]] = deque(maxlen=UNLOGGED)
        """Corrections not yet in a log; whoever follows streams with the learner writes them."""
        self.saves_due = False
        """Whether whoever follows streams with the learner should write a save and remove the
        others."""
        self._folder: Path | None = None
        self._beside: Callable[[], dict[str, Any]] = dict
        self._followed = False
        if table is not None:
            self.table = table
        for part in self._owned:
            part.in_use = True

    @one_at_a_time
    def __repr__(self) -> str:
        return as_text(self)

    @one_at_a_time
    def _repr_html_(self) -> str:
        return as_html(self)

    # ---- what users call ---------------------------------------------------------------------

    @property
    def labels(self) -> list[Label]:
        """Labels seen so far, in order of arrival: the columns of `predict_proba`."""
        with self._asked() as asked:
            return asked.labels

    @property
    def lr(self) -> float:
        """The network's learning rate in the next step.

        With a named optimiser it can be set between steps. If the optimiser has groups with other
        rates, these remain the same multiples of it.
        """
        rate = self.options.lr
        if not self.built:
            if "lr" in self.undecided:
                raise InputError(
                    "the learning rate is chosen with the first batch, unless you set it"
                )
            if self.optimizer_factory is None and OPTIMIZERS[self.options.optimizer] in PLAIN:
                return rate
            raise InputError("the optimizer, and its rate with it, is made with the first batch")
        groups = self.optimizer.param_groups
        if all(math.isclose(g["lr"], rate * g.get(RATIO, 1), rel_tol=1e-12) for g in groups):
            return rate
        rates = {group["lr"] for group in groups}
        if len(rates) > 1:
            raise InputError(
                f"the groups of the optimizer have different rates: {sorted(rates)}; see "
                "learner.optimizer.param_groups"
            )
        return float(rates.pop())

    @lr.setter
    @one_at_a_time
    def lr(self, value: float) -> None:
        if self.optimizer_factory is not None:
            raise InputError(
                "this optimizer was made by a function, which decides about its rates; change "
                "them in learner.optimizer.param_groups, or use a scheduler"
            )
        options = replace(self.options, lr=value)
        groups = [g for made in self._all_optimizers() for g in made.param_groups if FOLLOWS in g]
        if not all(group[FOLLOWS] or RATIO in group for group in groups):
            raise InputError(
                f"the rates of the optimizer {options.optimizer!r} are no multiples of lr (a "
                "scheduler sets them, or lr was 0), so lr cannot be changed; see "
                "learner.optimizer.param_groups"
            )
        with SignalsHeld():
            self.options, self.undecided = options, self.undecided - {"lr"}
            for group in groups:
                group["lr"] = options.lr * group.get(RATIO, 1)

    @property
    def table(self) -> TableEncoder | None:
        """How the columns of tables become inputs; None until the first table.

        It is inferred from the first frame that is learned, unless you set it beforehand:
        `Learner(table=TableEncoder.infer(frame, categorical=["zip"]))`.
        """
        return self.known_table.encoder

    @table.setter
    @one_at_a_time
    def table(self, encoder: TableEncoder) -> None:
        if not isinstance(encoder, TableEncoder):
            raise InputError(f"table must be a TableEncoder, got {shown(encoder)}")
        kind = self.input_kind
        if self.table not in (None, encoder) or (kind and kind.shape != (encoder.width,)):
            raise InputError("the learner has learned from other inputs; set table before that")
        self.known_table.encoder = encoder

    @property
    def drift(self) -> Adwin | None:
        """What watches the stream for changes; may be set, or set to None, at any time."""
        return self.drifting.watch

    @drift.setter
    @one_at_a_time
    def drift(self, watch: Adwin | None) -> None:
        self.drifting.begin(watch)

    def _all_optimizers(self) -> list[torch.optim.Optimizer]:
        own = [optimizer for part in self.parts for optimizer in part.optimizers.values()]
        return [self.optimizer, *own] if self.built else own

    @one_step_at_a_time
    def learn(
        self, x: Any, labels: Any, *, ids: Any = None, weights: Any = None, store: bool = True
    ) -> StepResult:
        """Make one step with a batch of inputs and their labels.

        `x` has a row for each sample, in the same form in every call: an array or tensor of numbers
        (n, ...), such as images (n, channels, height, width), where uint8 is scaled to 0..1; a
        frame of pandas, polars or Arrow, whose columns are found by name; or, if the learner has a
        text encoder (`model="wordllama"`), a list of texts. `labels` has a label for each row:
        text, whole numbers, booleans or tuples of these.

        The inputs are copied, never modified or kept. A batch that is rejected, or whose loss is
        not finite, raises an `EvenstreamError` and leaves the learner exactly as it was.
        `store=False` is for rows that were learned before, in an earlier epoch, say: they are not
        stored, and closed forms, which have them in their sums already, do not add them again.

        `weights` sets the weight of each row in the mean of the loss, now and when it is replayed
        (1 by default). Weights act as costs: Logit Adjusted Softmax still counts rows, so weights
        by class shift its decisions.

        `ids` (text or whole numbers, one for each row) are kept with stored rows, as digests, so
        that `relabel` and `forget` can find them. Several rows may share an id.

        Rows that `accumulate` had collected before a rejected batch stay collected. If one of them
        is the cause, every later step is rejected as well, until `discard` drops them.
        """
        batch, values, encoder = self._check_batch(x, labels)
        row_digests = row_ids(ids, len(values))
        if row_digests is not None and not self.memory.capacity:
            raise InputError(f"{self.text} stores no samples, so ids are of no use")
        rows = self._gathered() + len(values)
        doubt = encoder.doubt(len(values)) if encoder and self.table is None else None
        result = self._learn(batch, values, encoder, row_digests, weights, store)
        if doubt and not isinstance(x, TableRows):
            warnings.warn(f"{doubt}: {_SAY_KINDS}", DataWarning, stacklevel=3)
        self._tell(result, rows)
        return result

    @one_step_at_a_time
    def ask(
        self,
        x: Any,
        priors: Mapping[Any, float] | None = None,
        *,
        ids: Any = None,
        costs: Costs | None = None,
        reject: float | None = None,
    ) -> Answers:
        """Predict, and return a ticket for each row, to pass to `learn_later` when the label
        arrives.

        The learner keeps the rows until then and saves them, so a ticket survives the process from
        the next save on. `limit_tickets` sets how many are kept, and for how many steps. `ids` is
        as in `learn`; everything else is passed to `predict`.
        """
        batch = self.check(x)
        if self.table is None and (is_frame(x) or isinstance(x, TableRows)):
            raise InputError(
                "there was no table yet that would tell how columns are read; learn from one "
                "before, or set learner.table = TableEncoder.infer(frame)"
            )
        if self.tickets.kind not in (None, kind_of(batch)):
            raise InputError(
                f"inputs have shape {kind_of(batch).shape} each, but those that wait for their "
                f"labels have {self.tickets.kind.shape}"
            )
        row_digests = row_ids(ids, len(batch))
        labels = self.predict(x, priors, costs=costs, reject=reject)
        return Answers(labels, self.tickets.give(batch, row_digests, self.step))

    @one_step_at_a_time
    def learn_later(
        self, tickets: Any, labels: Any, *, weights: Any = None, store: bool = True
    ) -> StepResult:
        """Make one step with rows that were passed to `ask`, now that their labels have arrived.

        Takes one ticket with its label, or several with a label each, in any order, and uses them
        up.

        Raises:
            LostTicket: a ticket has expired, was already learned, or was lost with a process that
                died before saving; no step was made.
        """
        if isinstance(tickets, str):
            tickets, labels = [tickets], [labels]
        if not isinstance(tickets, (list, tuple, np.ndarray)) or not len(tickets):
            raise InputError(f"tickets must be those that ask() has given, got {shown(tickets)}")
        numbers, values = self.tickets.find(list(tickets)), plain_labels(labels)
        if len(numbers) != len(values):
            raise InputError(f"{len(numbers)} tickets but {len(values)} labels; pass one for each")
        rows, row_digests = self.tickets.rows(numbers)
        own = row_digests if self.memory.capacity else None
        count = self._gathered() + len(values)
        result = self._learn(self.check(rows), values, None, own, weights, store, numbers)
        self._tell(result, count)
        return result

    @one_step_at_a_time
    def limit_tickets(self, number: int = MOST, steps: int = STEPS) -> None:
        """Set how many tickets are kept, and for how many steps; the oldest expire."""
        self.tickets.limit(number, steps, self.step)

    def _learn(
        self,
        batch: Batch,
        values: list[Label],
        encoder: TableEncoder | None,
        row_digests: Tensor | None,
        weights: Any,
        store: bool,
        tickets: Sequence[int] = (),
    ) -> StepResult:
        """Make a step with checked rows, and use up their tickets."""
        if not isinstance(store, (bool, np.bool_)):
            raise InputError(f"store must be True or False, got {shown(store)}")
        if not store and self.options.accumulate > 1:
            raise InputError("store=False is for whole batches; it cannot be used with accumulate")
        row_weights = check_weights(weights, len(values))
        if row_weights is not None and not self.method.weighs_rows:
            raise InputError(
                f"{self.text} cannot weight rows: its loss is not simply a mean over them; "
                "leave out weights, or use a method such as er-las"
            )
        if row_digests is not None and isinstance(self.composition.storing, AtTaskEnd):
            raise InputError(
                f"{self.text} fills its memory at the ends of tasks, from data without ids; leave "
                "ids out"
            )
        self._check_boundaries()
        with all_or_nothing(self):
            self.tickets.learn(tickets)
            if encoder is not None:
                self.known_table.encoder = encoder
            raw = self.encode(batch)
            if not self.built:
                self.build(raw.to(self.device))
            gathered = self._gathered()
            arrived = Waiting(raw, values, row_weights, row_digests)
            self.progress.pending = [*self.progress.pending, arrived]
            waiting = gathered + len(raw)
            if waiting < self.options.accumulate:
                return StepResult(self.step, None, None, rows=0, waiting=waiting)
            return self._learn_pending(gathered, store)

    @one_step_at_a_time
    def flush(self) -> StepResult | None:
        """Make a step with the rows that `accumulate` has collected so far, if there are any."""
        if not self.progress.pending:
            return None
        rows = self._gathered()
        with all_or_nothing(self):
            result = self._learn_pending(rows)
        self._tell(result, rows)
        return result

    @one_at_a_time
    def discard(self) -> int:
        """Drop the rows that `accumulate` has collected so far; returns how many there were."""
        dropped = self._gathered()
        self.progress.pending = []
        return dropped

    def predict(
        self,
        x: Any,
        priors: Mapping[Any, float] | None = None,
        *,
        costs: Costs | None = None,
        reject: float | None = None,
    ) -> Array[Any]:
        """The most likely label of each row; None until something has been learned.

        `x` is as in `learn`: an array or tensor, such as images, a frame, or a list of texts.
        Returns an array of text, integers or booleans if all labels seen so far are of that kind,
        otherwise of Python objects.

        `priors` are the class frequencies at deployment, if you know them: {label: number} with a
        number for every class, 0 if it does not occur. Only their ratios count, so they need not
        sum to 1. The answer is then the Bayes decision for them. This needs scores that are free of
        the stream's frequencies: `-las` methods (tau=1), `slda`, `class-means` and `randumb`. On
        flat inputs `auto` asks the best of its contestants that are.

        `costs` sets what errors cost; the answer is then the label of least expected cost. `{label:
        cost}` is the cost of missing a label, so it works as class weights do; `{label: {answer:
        cost}}` is that of a particular answer instead. Anything not mentioned costs 1. A square
        array also works, with a row for each of `labels` and a column for each answer, correct ones
        included.

        `reject=0.05` answers None (in an array of Python objects) where a row looks like no known
        class, and mistakes about 5 % of rows of known classes for such: see `familiarity`.
        """
        with self._asked() as asked:
            return asked.predict(x, priors, costs=costs, reject=reject)

    def predict_indices(
        self,
        x: Any,
        priors: Mapping[Any, float] | None = None,
        *,
        costs: Costs | None = None,
        reject: float | None = None,
    ) -> Array[np.int64]:
        """Like `predict`, as positions in `labels`; -1 instead of None."""
        with self._asked() as asked:
            return asked.predict_indices(x, priors, costs=costs, reject=reject)

    def familiarity(self, x: Any) -> Array[np.float32]:
        """How familiar each row looks, compared with the known classes; 0 before any step.

        Higher is more familiar. The scale depends on the method and the inference rule, so a value
        is only comparable with other rows, or with `familiarity_threshold`.
        """
        with self._asked() as asked:
            return asked.familiarity(x)

    def familiarity_threshold(self, reject: float) -> float:
        """The familiarity that about this share of rows of known classes stays below.

        Estimated from rows of known classes before they were learned, the newest of each class.
        Minus infinity while there are fewer than 1 / reject of them.
        """
        with self._asked() as asked:
            return asked.familiarity_threshold(reject)

    def predict_proba(self, x: Any, priors: Mapping[Any, float] | None = None) -> Array[np.float32]:
        """A probability for each row and each label in `labels` (no columns before any step)."""
        with self._asked() as asked:
            return asked.predict_proba(x, priors)

    def snapshot(self) -> Snapshot:
        """The learner as it is now (or was before the step in progress), for predictions.

        It never changes: `labels` and the columns of `predict_proba` belong together whatever is
        learned in the meantime. From then on predictions wait for no step, not even the first one.
        """
        if self._snapshots.newest is None:
            with GLOBAL_GENERATOR:
                self._snapshots.make(self, self.lock)
        taken = self._snapshots.newest
        if taken is None:
            raise EvenstreamError(f"there is no snapshot of {self.text}: {self._snapshots.why_not}")
        return taken

    @contextmanager
    def _asked(self) -> Iterator[Snapshot]:
        """What answers: a snapshot, or the learner itself as long as only one thread uses it."""
        own = self.lock.is_mine  # perhaps in the middle of a step that predicts
        taken = None if own else self._snapshots.find(self, self.lock)
        if taken is not None:
            yield taken
        else:
            with self.lock:
                yield Snapshot(self)

    @one_step_at_a_time
    def start_task(
        self,
        label_counts: Mapping[Any, int] | None = None,
        data: tuple[Any, Any] | None = None,
    ) -> list[int]:
        """Announce the start of a task, for methods that use boundaries.

        `label_counts` (how often each label will occur) is an oracle that only ablations need.
        `data` is the task's complete inputs and labels, for methods that visit them more than once;
        such a method may hold some out. Returns the positions that must not be trained on.
        """
        if self.in_task:
            raise InputError("start_task was called inside a task; call end_task first")
        counts = None if label_counts is None else plain_counts(label_counts)
        if counts is None and "label_counts" in self.needs:
            raise InputError(f"{self.text} needs start_task(label_counts={{label: count}})")
        rows = self._check_task_data(data)
        with all_or_nothing(self):
            progress = self.progress
            progress.task, progress.in_task, progress.task_counts = self.task + 1, True, counts
            return self.begin_task(rows)

    @one_step_at_a_time
    def reset_optimizer(self) -> None:
        """Start again with new optimisers, without the old momentum or moments."""
        if self.built:
            self.renew_optimizers()

    @one_step_at_a_time
    def start_epoch(self) -> None:
        """Announce another pass over the task's data; `start_task` announces the first."""
        if not self.in_task:
            raise InputError("start_epoch was called outside a task; call start_task first")
        with all_or_nothing(self):
            self.begin_epoch()

    @one_step_at_a_time
    def end_task(self, data: tuple[Any, Any] | None = None) -> None:
        """Announce the end of the current task; `data` as in `start_task`.

        Rows that `accumulate` has collected belong to this task, so a step is made with them first.
        If anything fails, that step is undone as well.
        """
        if not self.in_task:
            raise InputError("end_task was called outside a task; call start_task first")
        rows = self._check_task_data(data)
        result, gathered = None, self._gathered()
        with all_or_nothing(self):
            if gathered:
                self._note_weights()
                result = self._learn_pending(gathered)
            self.finish_task(rows)
            self.progress.in_task = False
        if result is not None:
            self._tell(result, gathered)

    # ---- corrections --------------------------------------------------------------------------

    @one_step_at_a_time
    def relabel(self, ids: Any, label: Any) -> Edit:
        """Change the label of stored samples that were learned with one of these `ids`.

        From now on they are replayed with the new label, and closed forms count them under it. What
        the network's weights have learned from the old label stays until replay has unlearned it.
        The label may be a new one. The result tells how many samples there were, and which ids were
        not found.
        """
        wanted, new = plain_ids(ids), plain_label(label)
        return self._edit(lambda: editing.relabel(self, wanted, new))

    @one_step_at_a_time
    def forget(
        self,
        *,
        ids: Any = None,
        label: Any = None,
        x: Any = None,
        labels: Any = None,
        weights: Any = None,
        saves: bool | str | Path = False,
    ) -> Edit:
        """Delete samples. This cannot be undone.

        By `ids` or by `label`, this deletes stored and collected samples. By `x` with `labels` (and
        the `weights` that they were learned with), it deletes rows that were learned, stored or
        not: closed forms are then as if the rows had never arrived, so pass only rows that did,
        each as often as it did.

        Weights that were trained on a sample keep what they learned from it. Earlier saves keep the
        sample unless `saves` is True or names their folder: the learner is then saved there as it
        is now, and the earlier saves are removed. While `follow` is running, it does this itself
        after its current batch.
        """
        given = [
            name for name, value in (("ids", ids), ("label", label), ("x", x)) if value is not None
        ]
        if len(given) != 1:
            raise InputError("say what to forget: ids=..., label=..., or x=... with labels=...")
        if x is None and (labels is not None or weights is not None):
            raise InputError(
                "labels and weights belong to x; forget(label=...) deletes a class's samples"
            )
        folder = self._folder_of(saves)
        if ids is not None:
            wanted = plain_ids(ids)
            return self._edit(lambda: editing.forget_ids(self, wanted), folder)
        if label is not None:
            own = plain_label(label)
            return self._edit(lambda: editing.forget_label(self, own), folder)
        if labels is None:
            raise InputError(
                "forget(x=...) needs the labels that the rows were learned with: labels=..."
            )
        batch, values, _ = self._check_batch(x, labels)
        row_weights = check_weights(weights, len(values))

        def forget_rows() -> Edit:
            raw = batch if self.front is None else self.front.plain(batch).cpu()
            assert isinstance(raw, Tensor)
            return editing.forget_rows(self, raw, values, row_weights)

        return self._edit(forget_rows, folder)

    @one_step_at_a_time
    def rename(self, old: Any, new: Any) -> Edit:
        """Rename a class; no class may have the new label yet, and nothing else changes."""
        names = plain_label(old), plain_label(new)
        return self._edit(lambda: editing.rename(self, *names))

    @one_step_at_a_time
    def merge(self, old: Any, into: Any) -> Edit:
        """Merge class `old` into class `into`.

        Samples, counts and sums of `old` belong to `into` from now on. In the head, `into` keeps
        its row and learns the rest by replay.
        """
        names = plain_label(old), plain_label(into)
        return self._edit(lambda: editing.merge(self, *names))

    @one_step_at_a_time
    def remove_class(self, label: Any, *, saves: bool | str | Path = False) -> Edit:
        """Delete a class with all its samples; it is never predicted again. This cannot be undone.

        The other classes are unaffected. If the label arrives again, it is a new class. `saves` is
        as in `forget`.
        """
        own, folder = plain_label(label), self._folder_of(saves)
        return self._edit(lambda: editing.remove_class(self, own), folder)

    def _edit(self, change: Callable[[], Edit], saves: Path | None = None) -> Edit:
        """Make a correction, all or nothing, keep it for the log, and rewrite saves."""
        with all_or_nothing(self):
            edit = change()
            self.progress.edits += 1
        self.unlogged.append({"edit": self.progress.edits, **edit.event})
        if saves is not None and self._followed and saves == self._folder:
            self.saves_due = True
        elif saves is not None:
            with exclusive(saves):
                self._write(saves, alone=True)
        return edit

    @one_at_a_time
    def save(self, path: str | Path) -> Path:
        """Save the whole learner in the folder `path`, and keep the previous save as well.

        Returns the folder, from which `load` reads.
        """
        folder = given_path("path", path)
        self._write(folder)
        return folder

    def _write(self, folder: Path, *, alone: bool = False) -> None:
        """Save, together with the position in streams that was saved in the same folder.

        What its `metrics.json` says of the learner follows.
        """
        place = folder.resolve()
        beside = self._beside() if place == self._folder else {}
        write_checkpoint(folder, self.step, {**self.state(), **beside}, alone=alone)
        if beside and (metrics := object_or_none(folder / METRICS)) is not None:
            try:
                write_atomically(folder / METRICS, json.dumps({**metrics, **facts(self)}, indent=1))
            except OSError as error:
                raise CheckpointError(f"saved, but {METRICS} cannot be written: {error}") from error
        if place != self._folder:
            self._folder, self._beside = place, dict

    @contextmanager
    def kept_by(self, folder: Path, beside: Callable[[], dict[str, Any]]) -> Iterator[None]:
        """For a while, `follow` saves the learner into a folder, with its own additions."""
        self._folder, self._beside, self._followed = folder.resolve(), beside, True
        try:
            yield
        finally:
            last = beside()
            self._beside, self._followed = lambda: last, False

    def _folder_of(self, saves: bool | str | Path) -> Path | None:
        """The folder whose saves are to be rewritten, if any."""
        if isinstance(saves, (bool, np.bool_)):
            folder = self._folder if saves else None
            if saves and folder is None:
                raise InputError(
                    "this learner was neither saved nor loaded, so it knows of no saves; "
                    "name their folder: saves=FOLDER"
                )
            return folder
        folder = given_path("saves", saves)
        if not has_checkpoint(folder):
            raise InputError(f"there are no saves in {folder}")
        return folder.resolve()

    def export(self, path: str | Path) -> Path:
        """Export everything that prediction needs, from raw inputs to probabilities, to one file.

        `.onnx` is for any ONNX runtime (needs `evenstream[onnx]`), `.pt2` for `torch.export.load`.
        The labels are in the file's metadata. Steps wait until the file is written.
        """
        from evenstream.learner.export import export_learner

        with GLOBAL_GENERATOR, self.lock:  # PyTorch traces for the whole process
            return export_learner(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: nn.Module | Frozen | None = None,
        *,
        device: str | None = None,
        **parts: Unpack[OwnParts],
    ) -> Learner:
        """Load a learner, which continues exactly where it was saved.

        Named networks are rebuilt. Anything without a text form must be passed again: your own
        module, or `Frozen(...)` with one, as `model`, an unregistered method as `method`, and your
        own criterion, head, rule (`predict`), retrieval or storing policy under those names.
        """
        folder = given_path("path", path)

        def build(state: dict[str, Any]) -> Learner:
            learner = cls.from_state(state, model, device=device, **parts)
            beside = {name: state[name] for name in (LIVE,) if name in state}
            learner._folder, learner._beside = folder.resolve(), lambda: beside
            return learner

        return restore(folder, build)

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """What `save` writes, as one block of bytes: for a database, a message, or a larger pickle.

        Reading it back runs no code.
        """
        return to_bytes(self.step, self.state())

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        model: nn.Module | Frozen | None = None,
        *,
        device: str | None = None,
        **parts: Unpack[OwnParts],
    ) -> Learner:
        """Read a learner back from what `to_bytes` returned; see `load`."""
        return cls.from_state(from_bytes(data), model, device=device, **parts)

    @one_at_a_time
    def state(self) -> dict[str, Any]:
        """The whole state as a tree of tensors and plain values: what a checkpoint holds.

        The tensors are the learner's own and change with the next step, so copy what you keep.
        """
        return learner_state(self)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        model: nn.Module | Frozen | None = None,
        *,
        device: str | None = None,
        **parts: Unpack[OwnParts],
    ) -> Learner:
        """Rebuild a learner from what `state` returned; see `load`.

        Raises:
            DamagedCheckpoint: the state is not what `state` returns.
            EvenstreamError: the other arguments do not fit, or there is no such device.
        """
        made = made_with(state, model, parts)
        with entry("options"):
            options = dict(state["options"])
            before = options.pop("device")
            if not isinstance(before, str):
                raise TypeError(f"its device is {shown(before)}")
        place = resolve_device(before if device is None else device)
        with entry("options"):
            learner = cls(device=place, **(options | made))
        try:
            if learner.text != state["method"]:
                raise CheckpointError(
                    f"saved with method {state['method']}, not with {learner.text}"
                )
            if isinstance(state.get("weights"), str):
                learner.weights = weights_file(state["weights"])
            load_learner_state(learner, state)
        except BaseException:
            for part in learner._owned:
                part.in_use = False  # the caller's may be used again
            raise
        return learner

    @one_at_a_time
    def fingerprint(self) -> str:
        """A SHA-256 of the whole state; equal exactly if two learners behave the same."""
        return learner_fingerprint(self.state())

    @one_at_a_time
    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        memo[id(self)] = copied = object.__new__(type(self))
        own = {"_folder": None, "_beside": dict, "_followed": False}  # not the copy's saves
        copied.__dict__.update(copy.deepcopy({**self.__dict__, **own}, memo))
        return copied

    # ---- one step ----------------------------------------------------------------------------

    def _check_batch(self, x: Any, labels: Any) -> tuple[Batch, list[Label], TableEncoder | None]:
        rows, encoder = self.known_table.take(x, self.input_kind)
        batch = self.check(rows)
        values = plain_labels(labels)
        if len(values) != len(batch):
            raise InputError(f"{len(batch)} rows but {len(values)} labels; pass one for each row")
        return batch, values, encoder

    def _gathered(self) -> int:
        return sum(map(len, self.progress.pending))

    def _learn_pending(self, kept: int, store: bool = True) -> StepResult:
        """Make a step with all collected rows; `kept` of them stay collected if it is rejected."""
        pending, self.progress.pending = self.progress.pending, []
        try:
            batch = joined(pending)
            result = self.learn_batch(batch, store)
            if self.drift is None:
                return result
            changes = self.drifting.look(self.step, result.accuracy, result.loss, batch.rows)
            return replace(result, drift=changes)
        except (InputError, NonFiniteLoss) as error:
            if not kept:
                raise
            kind = NonFiniteLoss if isinstance(error, NonFiniteLoss) else InputError
            raise kind(
                f"{error}; rows that were gathered before ({kept}) stay gathered, and "
                "learner.discard() drops them"
            ) from error

    def _note_weights(self) -> None:
        """Let failures after the next step undo it too; `learn_batch` alone does not."""
        for optimizer in self._all_optimizers():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self.about_to_change(parameters, optimizer)

    def _tell(self, result: StepResult, rows: int) -> None:
        """Warn about anything odd in the step just made."""
        if result.waiting:
            return
        for change in result.drift:
            log.info("%s: drift after step %d: %s", self.text, change.step, change)
            warnings.warn(f"drift after step {change.step}: {change}", DriftWarning, stacklevel=4)
            if self.drift is not None and self.drift.on_drift is not None:
                self.drift.on_drift(change)
        trouble = self._watch.trouble(result, rows, len(self.label_map))
        if trouble is not None:
            warnings.warn(NotLearning(trouble, ADVICE), NotLearning, stacklevel=4)
        self._single_class_run = self._single_class_run + 1 if result.single_class else 0
        if self._single_class_run >= WARN_AFTER and not self._warned:
            self._warned = True
            warnings.warn(
                f"the last {WARN_AFTER} steps had a single class in the window, and Logit Adjusted "
                "Softmax learns nothing from those: use larger batches, accumulate=N, a memory, "
                "or a longer window (er-las:window=N)",
                LearningWarning,
                stacklevel=4,
            )

    def _check_boundaries(self) -> None:
        if "boundaries" in self.needs and not self.in_task:
            raise InputError(f"{self.text} needs task boundaries: call start_task() before learn()")
        if "label_counts" in self.needs and self.task_counts is None:
            raise InputError(f"{self.text} needs start_task(label_counts={{label: count}})")

    # ---- tasks -------------------------------------------------------------------------------

    def _check_task_data(self, data: tuple[Any, Any] | None) -> tuple[Batch, list[Label]] | None:
        """Check a task's data as learn() would."""
        if data is None:
            if "second_pass" in self.needs:
                raise InputError(
                    f"{self.text} looks at a task's data more than once: pass all of it as "
                    "start_task(data=(x, labels)) and end_task(data=(x, labels))"
                )
            return None
        if not (isinstance(data, (tuple, list)) and len(data) == 2):
            raise InputError(f"data must be a pair of inputs and labels, got {shown(data)}")
        batch, values, _ = self._check_batch(*data)
        return batch, values

    # ---- prediction --------------------------------------------------------------------------

    def scores(self, x: Any, priors: Mapping[Any, float] | None = None) -> Array[np.float32]:
        """The inference rule's scores for the classes seen so far (no columns before any step)."""
        with self._asked() as asked:
            return asked.scores(x, priors)

    def before_change(self) -> None:
        """Called when a step, or something like it, begins."""
        self._snapshots.before_change(self)

    def after_change(self) -> None:
        """Called when it is complete, so that predictions may see it."""
        self._snapshots.after_change(self)

    def _plain(self, batch: Batch) -> Tensor:
        """A batch as the network receives it."""
        raw = batch if self.front is None else self.front.plain(batch)
        assert isinstance(raw, Tensor)
        return raw


def _training(
    method: str, model: str | None, **given: Any
) -> tuple[dict[str, Any], frozenset[str]]:
    """Options with defaults filled in, and the names of those to be chosen with the network.

    If you name an optimiser, the learning rate is not taken from the choice of another one.
    """
    usual = {field.name: field.default for field in fields(TrainingOptions)}
    said = {name: value for name, value in given.items() if value is not None}
    said |= made_for(method, said)
    values = {name: said.get(name, usual[name]) for name in given}
    unsaid = given.keys() - said.keys() - {"steps"} if model == AUTO else set()
    if "optimizer" in said:
        unsaid -= {"lr", "weight_decay"}
    return values, frozenset(unsaid)


def text_of(given: object) -> str:
    """A name unchanged; for a function, where it is defined."""
    return given if isinstance(given, str) else import_path(given)

"""Applies a learner's frozen part to its inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Generator, Tensor, nn

from evenstream.augment import Latents, Preprocess
from evenstream.choosing import AUTO
from evenstream.core.classifier import laid_out
from evenstream.core.inputs import (
    TEXTS,
    Batch,
    InputKind,
    are_texts,
    check_inputs,
    check_texts,
    kind_of,
)
from evenstream.core.outputs import PREDICT_BATCH
from evenstream.core.passes import multiplications
from evenstream.core.stateful import WithoutClasses
from evenstream.entries import entry
from evenstream.errors import CheckpointError, InputError, calling, shown
from evenstream.interruption import let_through
from evenstream.learner.building import layout_of
from evenstream.learner.frozen import Frozen, Saved, check_settings

VALUES_AT_A_TIME = 1 << 23
"""Limit on inputs per pass, so that feature maps of large images fit into memory."""


class Front(WithoutClasses):
    """The frozen part of one learner; its only state is the kind of its inputs.

    Args:
        frozen: as given by the user.
        preprocess: scaling and augmentation of its inputs.
        device: where it computes.
        dtype: precision of modules (autocast).
    """

    def __init__(
        self, frozen: Frozen, preprocess: Preprocess, device: torch.device, dtype: torch.dtype
    ) -> None:
        augments = bool(preprocess.parts) or preprocess.function is not None
        if augments and not frozen.views:
            raise InputError(
                "augment makes views of each row before the frozen part, which sees a row once; "
                "say how many to make and store: Frozen(..., views=4)"
            )
        if frozen.views and not augments:
            raise InputError(
                f"views={frozen.views} needs an augmentation that makes them: augment='crop+flip'"
            )
        if frozen.normalises and (preprocess.mean or preprocess.std):
            raise InputError(f"{frozen.title} normalises its inputs itself; leave mean and std out")
        self.frozen, self.preprocess, self.device, self.dtype = frozen, preprocess, device, dtype
        self.kind: InputKind | None = None
        """Kind of the learner's inputs; fixed by the first batch."""
        self.latents = Latents(views=frozen.views > 0)
        """The preprocessing of its outputs."""
        self._encoder = encoder = frozen.on(device)
        self._layout = layout_of(encoder) if isinstance(encoder, nn.Module) else None
        self._stored = getattr(torch, frozen.dtype)
        self.work: float | None = None
        """Multiplications for one row, once one has passed; 0 if the encoder is not a module."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Front:
        return copy.copy(self)

    def check(self, x: Any, advice: str = "") -> Batch:
        """A private copy of the user's inputs; rejects unusable ones (see `check_inputs`)."""
        if not are_texts(x):
            if self.kind == TEXTS:
                raise InputError("this learner has learned from texts; pass a list of them")
            return check_inputs(x, self.kind, advice)
        if self.kind not in (None, TEXTS):
            learned = advice or "this learner has learned from numbers"
            raise InputError(f"inputs are texts; {learned}")
        if self.preprocess.mean or self.preprocess.std or self.frozen.views:
            raise InputError("inputs are texts, for which there is no mean, std or augmentation")
        return check_texts(x)

    def train(self, batch: Batch, generator: Generator) -> Tensor:
        """What is stored and trained on: the frozen part's output for each view of each row."""
        views = [self._rows(batch, None)]
        views += [self._rows(batch, generator) for _ in range(self.frozen.views)]
        self.kind = kind_of(batch)
        return torch.stack(views, 1) if self.frozen.views else views[0]

    def plain(self, batch: Batch) -> Tensor:
        """The same, un-augmented."""
        rows = self._rows(batch, None)
        return rows.unsqueeze(1) if self.frozen.views else rows

    def _rows(self, batch: Batch, generator: Generator | None) -> Tensor:
        """Some rows at a time."""
        return torch.cat([self._encoded(part, generator) for part in _parts(batch)])

    def _encoded(self, batch: Batch, generator: Generator | None) -> Tensor:
        let_through()
        given: Any = batch
        if isinstance(batch, Tensor):
            raw = batch.to(self.device)
            use = self.preprocess
            given = use.plain(raw) if generator is None else use.train(raw, generator)
            given = given if self._layout is None else laid_out(given, self._layout)
        with torch.no_grad(), calling(f"the frozen {self.frozen.title}"), self._autocast():
            made = self._measured(given, len(batch)) if self.work is None else self._encoder(given)
        return self._stored_form(_values(made), len(batch))

    def _measured(self, given: Any, rows: int) -> Any:
        """The encoder's output, the first time."""
        encoder = self._encoder
        with multiplications(encoder if isinstance(encoder, nn.Module) else nn.Identity()) as work:
            made = encoder(given)
        self.work = sum(work) / max(rows, 1)
        return made

    def _autocast(self) -> torch.autocast:
        module = isinstance(self._encoder, nn.Module)
        return torch.autocast(
            self.device.type, self.dtype, enabled=module and self.dtype != torch.float32
        )

    def _stored_form(self, made: Any, count: int) -> Tensor:
        try:
            rows = check_inputs(made, None)
        except InputError as error:
            raise InputError(f"what the frozen {self.frozen.title} returned: {error}") from None
        if len(rows) != count:
            raise InputError(
                f"the frozen {self.frozen.title} returned {len(rows)} rows for {count} inputs"
            )
        stored = rows.to(self._stored)
        if not bool(torch.isfinite(stored).all()):
            raise InputError(
                f"the frozen {self.frozen.title} returned values that {self.frozen.dtype} cannot "
                "hold; use Frozen(..., dtype='float32')"
            )
        return stored

    def as_module(self) -> nn.Module:
        """A copy of `plain` in float32, without checking values.

        Raises:
            InputError: it does not consist of PyTorch operations.
        """
        title = f"the frozen {self.frozen.title} cannot be exported"
        if self.kind == TEXTS:
            raise InputError(f"{title}: it reads texts, and a file takes numbers only")
        if not isinstance(self._encoder, nn.Module):
            raise InputError(f"{title}: it is a function; a module can be traced")
        return FrontModule(copy.deepcopy(self._encoder), self)

    # ---- state ---------------------------------------------------------------------------------

    def mark(self) -> InputKind | None:
        """The kind of inputs."""
        return self.kind

    def restore(self, mark: InputKind | None) -> None:
        """Restore the kind of inputs, which may not have been known yet."""
        self.kind = mark

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any]:
        """The frozen part, by fingerprint or value, and the kind of inputs."""
        frozen, values = self.frozen, None
        if frozen.save == "value" and isinstance(frozen.encoder, nn.Module):
            values = dict(frozen.encoder.state_dict())
        return {
            "encoder": frozen.name,
            "title": frozen.title,
            "fingerprint": frozen.fingerprint,
            "values": values,
            "views": frozen.views,
            "dtype": frozen.dtype,
            "input": None if self.kind is None else asdict(self.kind),
        }

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same to continue from a saved state."""
        return front_identity(self.state())

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the kind of inputs; the frozen part was compared or created with the learner."""
        if front_identity(state) != self.identity:
            raise CheckpointError(f"it was not saved with this {self.frozen.title}")
        kind = state["input"]
        self.kind = None if kind is None else InputKind.from_state(kind)


class FrontModule(nn.Module):
    """A front as a module, for tracing.

    Args:
        encoder: the front's own, or a copy.
        front: what else there is to do.
    """

    def __init__(self, encoder: nn.Module, front: Front) -> None:
        super().__init__()
        self.encoder, self.preprocess = encoder, copy.deepcopy(front.preprocess)
        self.layout, self.stored = layout_of(encoder), getattr(torch, front.frozen.dtype)
        self.views = front.frozen.views > 0

    def forward(self, x: Tensor) -> Tensor:
        """What the memory would store of these inputs, un-augmented."""
        made: Tensor = _values(self.encoder(laid_out(self.preprocess.plain(x), self.layout)))
        rows = made.float().to(self.stored)
        return rows.unsqueeze(1) if self.views else rows


def front_identity(state: dict[str, Any]) -> dict[str, Any]:
    """What must be the same to go on, in the state of a frozen part."""
    return {name: state[name] for name in ("fingerprint", "views", "dtype")}


def frozen_again(front: dict[str, Any], then: str | None, given: Any) -> Frozen:
    """What the frozen part of a saved learner was made with: by its name, or the caller's.

    Args:
        front: what `Front.state` returned.
        then: the name of the network that was trained; None if it was a module.
        given: what the caller passed as `model`, if anything.

    Raises:
        CheckpointError: it has to be given again, or another one was given.
    """
    with entry("front"):
        title, name, views, dtype = (front[key] for key in ("title", "encoder", "views", "dtype"))
        before, values = str(front["fingerprint"]), front["values"]
        check_settings(views, dtype)
        if not isinstance(name, str | None) or not isinstance(values, dict | None):
            raise TypeError("it lacks a description of the frozen part")
    again = f"load(path, model=Frozen(..., views={views}, dtype={dtype!r}))"
    if given is None:
        if name is None or then is None:
            raise CheckpointError(
                f"this learner was made with a frozen {title} or a network of your own on top of "
                f"it; pass both again: {again}"
            )
        save: Saved = "fingerprint" if values is None else "value"
        given = Frozen(name, then=then, views=views, dtype=dtype, save=save)
    if not isinstance(given, Frozen):
        raise InputError(
            f"this learner was made with a frozen {title}, got {shown(given)}; pass {again}"
        )
    frozen: Frozen = given
    if (frozen.views, frozen.dtype) != (views, dtype):
        raise CheckpointError(
            f"this learner stores views={views} and dtype={dtype!r} of what is frozen, not "
            f"views={frozen.views} and dtype={frozen.dtype!r}; pass {again}"
        )
    if frozen.then == AUTO and then is not None:
        frozen = frozen.followed_by(then)
    if isinstance(frozen.then, str) and frozen.then != then:
        raise CheckpointError(f"this learner was made with then={then!r}, not {frozen.then!r}")
    if values is not None:
        return frozen.with_weights(values)
    if frozen.fingerprint != before:
        raise CheckpointError(
            f"this learner was made with a frozen {title} of fingerprint {before[:16]}, and the "
            f"{frozen.title} given has {frozen.fingerprint[:16]}; pass the one with the same "
            "weights (Frozen(..., save='value') keeps them in saves)"
        )
    return frozen


def _parts(batch: Batch) -> Iterator[Batch]:
    """Number of rows at a time whose outputs fit into memory."""
    size = 1 if isinstance(batch, list) else max(batch[0].numel(), 1)
    few = max(min(PREDICT_BATCH, VALUES_AT_A_TIME // size), 1)
    for first in range(0, len(batch), few):
        yield batch[first : first + few]


def _values(made: Any) -> Any:
    """The features in an encoder's output; Hugging Face models return several things."""
    for name in ("pooler_output", "last_hidden_state"):
        found = getattr(made, name, None)
        if isinstance(found, Tensor):
            return found if name == "pooler_output" else found.mean(1)
    return made

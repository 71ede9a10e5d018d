"""Frozen networks in front of what is trained."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.checkpoint import fingerprint
from evenstream.choosing import AUTO
from evenstream.composition import import_path
from evenstream.encoders import ENCODERS, build_encoder
from evenstream.errors import CheckpointError, InputError, shown
from evenstream.learner.splitting import split
from evenstream.numerals import plain_number
from evenstream.text import join_options, read_options, split_options, write_option

Stored = Literal["float32", "float16"]
Saved = Literal["fingerprint", "value"]
MOST_VIEWS = 1000
_WRITTEN = {"then": str, "views": int, "dtype": Stored}
Encoder = Callable[[Any], Any]
"""A function from a batch of inputs, or a list of texts, to a row of numbers for each."""
FEATURES = "identity"
"""The network after a frozen one whose head alone is trained, as where nothing was said before."""


class Frozen:
    """A network, or a part of one, that is never trained: `Learner(model=Frozen(backbone))`.

    It sees each arriving row once, in eval mode and without gradients. The memory stores its
    outputs, and whatever follows it (at least the head) is trained on those. The network is copied,
    so later changes to the original do not affect it. Several learners may share a `Frozen`, unless
    it has a module to train.

    Args:
        encoder: the name of a pretrained encoder ("efficientnet-lite0", "wordllama"; see
            `evenstream.encoders`), a module, or a function. It receives a scaled and normalised
            batch, like any network, or a list of texts if the learner is given texts, and returns
            one row of numbers (a tensor or an array) for each.
        up_to: the name of the last frozen layer in the module; everything after it is trained.
        then: what is trained on the outputs, below the head that the learner adds: the name of a
            network, or a module; "identity" trains the head alone. By default, what an array of
            such features would get (`evenstream.choosing`).
        views: number of augmented views of each row besides the plain one; the memory stores all of
            them, and a step trains on one drawn at random. Goes together with `augment`.
        dtype: type of the stored outputs; "float16" takes half the space.
        save: whether a save holds only a "fingerprint" of the frozen weights, which must then be
            passed again when loading, or their "value".
    """

    def __init__(
        self,
        encoder: str | nn.Module | Encoder,
        up_to: str | None = None,
        *,
        then: str | nn.Module | None = None,
        views: int = 0,
        dtype: Stored = "float32",
        save: Saved = "fingerprint",
    ) -> None:
        self.name: str | None = None
        """Name of an encoder that can be recreated from it."""
        self._title: str | None = None
        if isinstance(encoder, str):
            self.name, encoder = build_encoder(encoder)
            encoder.eval().requires_grad_(False)
        elif isinstance(encoder, nn.Module):
            encoder = _own_copy(encoder) if up_to is None else encoder
        elif not callable(encoder):
            raise InputError(
                "what is frozen must be an encoder's name, a module or a function, got "
                f"{shown(encoder)}"
            )
        if up_to is not None:
            self._title = f"{type(encoder).__name__} up to {up_to}"
            encoder, then = _cut(encoder, up_to, then)
            self.name = None
        if not isinstance(then, str | nn.Module | None):
            raise InputError(f"then must be a network's name or a module, got {shown(then)}")
        self.encoder: nn.Module | Encoder = encoder
        self.then: str | nn.Module = AUTO if then is None else then
        self.views, self.dtype = check_settings(views, dtype)
        self.save: Saved = _one_of("save", save, Saved)
        if self.save == "value" and not isinstance(encoder, nn.Module):
            raise InputError("save='value' is for modules; a function has no weights to save")
        self._digest: str | None = None

    @classmethod
    def read(cls, text: str, then: str = AUTO) -> Frozen:
        """Read `NAME[:key=value,...]`: an encoder's options, `then`, `views` and `dtype`."""
        name, written = split_options(text)
        known = ENCODERS.find(name).options
        options = read_options("encoder", name, written, {**known, **_WRITTEN})
        own = {"then": then} | {key: options.pop(key) for key in _WRITTEN if key in options}
        return cls(join_options(name, *itertools.starmap(write_option, options.items())), **own)

    @property
    def text(self) -> str | None:
        """The inverse of `read`; None if there is no text form."""
        if self.name is None or not isinstance(self.then, str):
            return None
        values = {"then": self.then, "views": self.views, "dtype": self.dtype}
        defaults = {"then": AUTO, "views": 0, "dtype": "float32"}
        written = [write_option(k, v) for k, v in values.items() if v != defaults[k]]
        name, options = split_options(self.name)
        return join_options(name, options, *written)

    def __repr__(self) -> str:
        return f"Frozen({self.title})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Frozen:
        return self  # nothing in it ever changes; learners hold what is trained

    @property
    def title(self) -> str:
        """A short name for what is frozen."""
        if self.name or self._title:
            return self.name or str(self._title)
        named = isinstance(self.encoder, nn.Module)
        return type(self.encoder).__name__ if named else import_path(self.encoder)

    @property
    def normalises(self) -> bool:
        """Whether the encoder normalises images itself, as named ones do."""
        return self.name is not None or bool(getattr(self.encoder, "normalises", False))

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of a module's weights, or where a function is defined."""
        if not isinstance(self.encoder, nn.Module):
            return import_path(self.encoder)
        if self._digest is None:
            self._digest = fingerprint({"weights": _plain(self.encoder.state_dict())})
        return self._digest

    def with_weights(self, weights: Mapping[str, Any]) -> Frozen:
        """The same with different weights."""
        made = copy.copy(self)
        assert isinstance(self.encoder, nn.Module)
        made.encoder, made._digest = copy.deepcopy(self.encoder), None
        try:
            made.encoder.load_state_dict(weights)
        except (RuntimeError, KeyError, TypeError) as error:
            raise CheckpointError(f"the saved weights do not fit {self.title}: {error}") from error
        return made

    def followed_by(self, network: str) -> Frozen:
        """The same, before a network of this name."""
        made = copy.copy(self)
        made.then = network
        return made

    def on(self, device: torch.device) -> nn.Module | Encoder:
        """A copy of the encoder on a device; the original stays where it is."""
        if not isinstance(self.encoder, nn.Module):
            return self.encoder
        there = {value.device for value in self.encoder.state_dict().values() if _is_tensor(value)}
        return self.encoder if there <= {device} else copy.deepcopy(self.encoder).to(device)


def _own_copy(module: nn.Module) -> nn.Module:
    if any(is_lazy(value) for value in (*module.parameters(), *module.buffers())):
        raise InputError(
            "a frozen network needs its weights, and this one has layers without any yet; let it "
            "see a batch first"
        )
    try:
        return copy.deepcopy(module).eval().requires_grad_(False)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"the network to freeze cannot be copied: {error}") from error


def _cut(
    network: nn.Module | Encoder, layer: str, then: str | nn.Module | None
) -> tuple[nn.Module, nn.Module]:
    if not isinstance(network, nn.Module):
        raise InputError("up_to is for modules; a function has no layers")
    if then is not None:
        raise InputError("give up_to, which cuts a network in two, or then, the second of two")
    first, rest = split(network, layer)
    return _own_copy(first), rest


def check_settings(views: Any, dtype: Any) -> tuple[int, Stored]:
    """Check the number of views and their storage type."""
    number = plain_number(views)
    if not (isinstance(number, int) and 0 <= number <= MOST_VIEWS):
        raise InputError(f"views must be a whole number of 0 to {MOST_VIEWS}, got {shown(views)}")
    return number, _one_of("dtype", dtype, Stored)


def _one_of(name: str, value: Any, kind: Any) -> Any:
    if isinstance(value, str) and value in get_args(kind):
        return value
    raise InputError(f"{name} must be one of {', '.join(get_args(kind))}, got {shown(value)}")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _plain(weights: Mapping[str, Any]) -> dict[str, Any]:
    """State from a module's `get_extra_state` is compared by its representation."""
    return {
        name: value if isinstance(value, Tensor) else json.dumps(value, default=repr)
        for name, value in weights.items()
    }

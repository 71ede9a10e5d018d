"""The feature extractors by name: built-in ones, and your own.

A network here maps a batch `(n, *input_shape)` to features `(n, num_features)`; the learner puts
a growing classifier head on top. Listing the names is cheap: only `build` imports PyTorch.
Initial weights come from PyTorch's global random state, so seed it before `build` to reproduce
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_origin, get_type_hints

from evenstream.errors import InputError, calling, shown
from evenstream.registry import Registry, check_function, check_texts, first_line
from evenstream.text import join_options, read_options, split_options, write_option

if TYPE_CHECKING:
    from torch import nn

    from evenstream.networks.convnet import ConvNet
    from evenstream.networks.feature_extractor import FeatureExtractor
    from evenstream.networks.mlp import MLP
    from evenstream.networks.mlp_norm import NormMLP
    from evenstream.networks.resnet import ImageNetResNet, ResNet

_HOME = {
    "ConvNet": "convnet",
    "FeatureExtractor": "feature_extractor",
    "ImageNetResNet": "resnet",
    "MLP": "mlp",
    "NormMLP": "mlp_norm",
    "ResNet": "resnet",
}

__all__ = [
    "MLP",
    "NETWORKS",
    "ConvNet",
    "FeatureExtractor",
    "ImageNetResNet",
    "NetworkInfo",
    "NormMLP",
    "ResNet",
    "build",
    "canonical_name",
    "register_network",
]

F = TypeVar("F", bound="Callable[..., nn.Module]")


@dataclass(frozen=True)
class NetworkInfo:
    """What is known about a network before it is built.

    Attributes:
        description: One line for listings.
        where: Its class, whose first argument is the shape of an input: MODULE:CLASS in this
            folder, or your own class or function.
        arguments: Further arguments of the class.
        min_side: Smallest image height and width; None if any shape will do.
    """

    description: str
    where: str | Callable[..., nn.Module]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    min_side: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that may follow the name, as in `resnet18:zero_init=true`, with their types."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of these if nothing follows; False where there is none."""

    @property
    def takes(self) -> str:
        """The inputs the network takes, in words."""
        if self.min_side is None:
            return "inputs of any shape with at least one dimension"
        side = self.min_side
        return f"images (channels, height, width) of at least {side}x{side} pixels"

    def fits(self, input_shape: tuple[int, ...]) -> bool:
        """Whether the network takes inputs of this shape."""
        if not input_shape or any(size < 1 for size in input_shape):
            return False
        if self.min_side is None:
            return True
        return len(input_shape) == 3 and min(input_shape[1:]) >= self.min_side


# A ResNet18 halves the map three times. With at least 9 pixels, more than one is left at the end;
# otherwise BatchNorm could not train on a batch of one. The ImageNet ones halve it five times; they
# accept 32 pixels, as the public code does, and leave a batch of one to the learner.
_RESNET = {"zero_init": bool}
_OURS = {
    "mlp": NetworkInfo("two hidden layers of 100 units, for any input (100 features)", "mlp:MLP"),
    "mlp-norm": NetworkInfo(
        "the same after normalising each column, for tables of any scale (100 features)",
        "mlp_norm:NormMLP",
    ),
    "identity": NetworkInfo(
        "no network: the inputs as they are, for features made elsewhere and closed forms",
        "identity:Identity",
    ),
    "normalised": NetworkInfo(
        "each column by its running mean and deviation, for a linear model of any scale",
        "normalised:Normalised",
    ),
    "normalised-mlp": NetworkInfo(
        "the same, and two hidden layers of 256 units beside it, for flat inputs of any scale",
        "normalised:NormalisedMLP",
    ),
    "convnet": NetworkInfo(
        "three BatchNorm convolutions, for tiny images (128 features)",
        "convnet:ConvNet",
        min_side=8,
    ),
    "resnet18": NetworkInfo(
        "CIFAR-style ResNet18 with a 3x3 stem, 11 million weights (512 features)",
        "resnet:ResNet",
        min_side=9,
        options=_RESNET,
    ),
    "slim-resnet18": NetworkInfo(
        "ResNet18 with 20 instead of 64 filters, 1.1 million weights (160 features)",
        "resnet:ResNet",
        {"width": 20},
        min_side=9,
        options=_RESNET,
    ),
    "resnet18-imagenet": NetworkInfo(
        "torchvision's ResNet18 for large images, 11 million weights (512 features)",
        "resnet:ImageNetResNet",
        min_side=32,
        options=_RESNET,
    ),
    "resnet34": NetworkInfo(
        "torchvision's ResNet34 for large images, 21 million weights (512 features)",
        "resnet:ImageNetResNet",
        {"blocks": (3, 4, 6, 3)},
        min_side=32,
        options=_RESNET,
    ),
}
NETWORKS: Registry[NetworkInfo] = Registry("network", _OURS, form="[a-z0-9][a-z0-9_.+-]*")


def register_network(
    name: str, *, description: str | None = None, min_side: int | None = None
) -> Callable[[F], F]:
    """Register a network by name: `--network NAME`, `Learner(model=NAME)`.

    Decorate a class or function that takes the shape of one input, such as `(3, 32, 32)`, and
    returns a module that maps each input of a batch to a feature vector. Further arguments that
    are annotated as bool, int, float or a Literal and have a default are options that may follow
    the name: `--network NAME:width=32`.

    Args:
        name: made of a-z, 0-9 and - _ . +
        description: one line for listings; by default the first line of the docstring.
        min_side: smallest image height and width; None accepts any shape.
    """
    check_texts(description=description)
    if min_side is not None and not (type(min_side) is int and min_side > 0):
        raise InputError(f"min_side must be a whole number above 0, got {shown(min_side)}")

    def add(make: F) -> F:
        check_function("network", make)
        words = first_line(make) if description is None else description
        types, defaults = _options_of(make)
        info = NetworkInfo(words, make, min_side=min_side, options=types, defaults=defaults)
        NETWORKS.add(name, info, make)
        return make

    return add


def build(name: str, input_shape: tuple[int, ...]) -> nn.Module:
    """Build a network by name.

    Args:
        name: A key of `NETWORKS`, with options as in `resnet18:zero_init=true`.
        input_shape: Shape of one input, without the batch dimension: `(3, 32, 32)`.

    Raises:
        UnknownName: There is no such network.
        InputError: The network does not take inputs of this shape.
    """
    info, options = _read(name)
    shape = tuple(int(size) for size in input_shape)
    if not info.fits(shape):
        raise InputError(f"network {name!r} takes {info.takes}, not inputs of shape {shape}")
    if not isinstance(info.where, str):
        with calling(f"what makes the network {name!r}"):
            made = info.where(shape, **options)
        return _checked(name, made)
    module, _, cls = info.where.partition(":")
    network: FeatureExtractor = getattr(import_module(f"{__name__}.{module}"), cls)(
        shape, **info.arguments, **options
    )
    return network


def canonical_name(name: str) -> str:
    """A network's name without default options.

    Raises:
        UnknownName: There is no such network.
        InputError: It has no such option.
    """
    info, options = _read(name)
    own = {k: v for k, v in sorted(options.items()) if v != info.defaults.get(k, False)}
    return join_options(split_options(name)[0], *(write_option(k, v) for k, v in own.items()))


def _options_of(make: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Types and defaults of the arguments that text can give."""
    function = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    try:
        types = get_type_hints(function)
        arguments = list(signature(make).parameters.values())[1:]
    except (NameError, TypeError, ValueError):  # annotations of another place, or no signature
        return {}, {}
    found = {
        argument.name: (types[argument.name], argument.default)
        for argument in arguments
        if argument.default is not Parameter.empty
        and (types.get(argument.name) in (bool, int, float) or _is_choice(types.get(argument.name)))
    }
    return {k: kind for k, (kind, _) in found.items()}, {k: v for k, (_, v) in found.items()}


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _read(name: str) -> tuple[NetworkInfo, dict[str, Any]]:
    """The information about a network, and the options after its name."""
    plain, written = split_options(name)
    info = NETWORKS.find(plain)
    return info, read_options("network", plain, written, info.options)


if not TYPE_CHECKING:  # or a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import on first use, so that listing the names does not import PyTorch."""
        if name in _HOME:
            return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Everything that can be imported, whether it has been imported yet or not."""
    return __all__


def _checked(name: str, network: Any) -> nn.Module:
    from torch import nn

    if not isinstance(network, nn.Module):
        raise InputError(f"network {name!r} must be a torch module, got {shown(network)}")
    return network

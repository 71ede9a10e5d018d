"""Training options: declared here, once, for learners, runs, sweeps and the command line.

To add an option, add a field to `TrainingOptions` and `GivenOptions`, an argument to `Learner`, and
the code that uses it. Runs, sweeps, the command line and the adapters follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from evenstream.errors import InputError, shown
from evenstream.numerals import LARGEST_FLOAT32, plain_number

MOST = 2**40
"""Upper limit of all counts, so that no size in bytes can overflow 63 bits."""
DTYPES = ("float32", "bfloat16")
"""Not float16, whose small gradients vanish unless the loss is scaled, which we do not do."""
DType = Literal["auto", "float32", "bfloat16"]
StepRows = Literal["micro", "repeat"]
"""What each of several steps for one batch trains on."""
Schedule = Literal["constant", "increase", "decrease", "random"]
"""How the batch size of a run changes between tasks."""
LONGEST_SEED = 10_000
"""Number of bits in the longest seed that checkpoints can store."""
_TOO_LARGE = 2**63


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that learners and runs share, checked on creation."""

    memory: int = 1000
    """Samples kept for replay; 0 means none."""
    batch: int = 32
    """Incoming samples per step."""
    replay_batch: int = 32
    """Stored samples replayed per step."""
    steps: int = 1
    """Updates for each arriving batch; its rows are offered to the memory once."""
    step_rows: StepRows = "micro"
    """With several steps: micro splits the batch and its replay into that many parts; repeat trains
    on the whole batch each time, with fresh augmentation and a fresh draw of replay."""
    lr: float = 0.03
    """Learning rate."""
    optimizer: str = "sgd"
    """sgd, adam, adamw, muon, one registered by a plugin, or MODULE:FUNCTION."""
    momentum: float = 0.0
    """Momentum of SGD."""
    weight_decay: float = 0.0
    """Weight decay, with any optimiser."""
    augment: str = "none"
    """none, or any of crop, flip, resized-crop, jitter, gray, randaugment, joined by +; or
    MODULE:FUNCTION."""
    scope: Literal["seen", "all"] = "seen"
    """Classes in the softmax: those seen so far, or all that the stream will ever have."""
    seed: int = 0
    """Seed for everything random."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    dtype: DType = "auto"
    """auto means bfloat16 on CPUs with AMX, and float32 elsewhere."""

    def __post_init__(self) -> None:
        for name, least in (("memory", 0), ("batch", 1), ("replay_batch", 0), ("steps", 1)):
            self._count(name, least)
        seed = plain_number(self.seed)
        if not isinstance(seed, int) or seed.bit_length() > LONGEST_SEED:
            raise InputError(
                f"seed must be a whole number of at most {LONGEST_SEED:,} bits, "
                f"got {shown(self.seed)}"
            )
        object.__setattr__(self, "seed", seed)
        for name in ("lr", "momentum", "weight_decay"):
            given = getattr(self, name)
            number = plain_number(given)
            if number is None or not 0 <= number <= LARGEST_FLOAT32:
                raise InputError(
                    f"{name} must be a finite number of 0 or more that float32 can hold, "
                    f"got {shown(given)}"
                )
            # a Python integer stays one, as in the fingerprints of earlier saves
            keeps = type(given) is int and number < _TOO_LARGE
            object.__setattr__(self, name, number if keeps else float(number))
        for name, known in (
            ("dtype", ("auto", *DTYPES)),
            ("scope", ("seen", "all")),
            ("step_rows", get_args(StepRows)),
        ):
            value = getattr(self, name)
            if not (isinstance(value, str) and value in known):
                raise InputError(f"{name} must be one of {', '.join(known)}, got {shown(value)}")
        if self.steps == 1 and self.step_rows != "micro":
            raise InputError("step_rows needs several steps per batch: set steps to 2 or more")

    def _count(self, name: str, least: int) -> None:
        """Check a whole number and turn it into a plain int."""
        given = getattr(self, name)
        number = plain_number(given)
        if not (isinstance(number, int) and number >= least):
            raise InputError(
                f"{name} must be a whole number of {least} or more, got {shown(given)}"
            )
        if number > MOST:
            raise InputError(f"{name} must be {MOST:,} at most, got {shown(given)}")
        object.__setattr__(self, name, number)


@dataclass(kw_only=True, eq=False, repr=False)
class GivenOptions:
    """The same as parameters of adapters for other libraries: None leaves an option to the learner.

    Options that take more than a name there, or have another default, are declared by the adapters.
    """

    memory: int | None = None
    batch: int | None = None
    replay_batch: int | None = None
    steps: int | None = None
    step_rows: StepRows | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    scope: Literal["seen", "all"] | None = None


@dataclass(frozen=True, kw_only=True)
class Options(TrainingOptions):
    """All options of a learner except its parts; in a run, the stream sets the additional ones."""

    mean: tuple[float, ...] | None = None
    """Subtracted from each channel after scaling uint8 to 0..1."""
    std: tuple[float, ...] | None = None
    """Each channel is divided by this."""
    accumulate: int = 1
    """Rows to collect before each step."""
    head_size: int = 0
    """Number of classes that the head has room for from the start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("accumulate", 1)
        self._count("head_size", 0)
        if self.scope == "all" and not self.head_size:
            raise InputError("scope='all' needs head_size, the total number of classes")


@dataclass(frozen=True)
class Protocol:
    """Defaults that depend on the stream; command-line flags override them."""

    network: str = "mlp"
    batch: int = 32
    replay_batch: int = 32
    memory: int = 1000
    lr: float = 0.03
    optimizer: str = "sgd"
    weight_decay: float = 0.0
    augment: str = "none"
    eval_every: int = 0
    """Steps between online evaluations (A_AUC); 0 for none."""
    epochs: int = 1
    """Passes over the data of each task; 1 is online."""

    def offline(self) -> Protocol:
        """The paper's offline task-incremental protocol on the same stream."""
        return replace(self, epochs=50, memory=100)

"""Noticing that a stream has changed: accuracy, loss and inputs, watched by River's ADWIN.

`Learner(drift=drift.Adwin())`. What the detectors know is a part of the learner: it is saved with
it, and a learner that is resumed notices the same as one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from evenstream.bounds import Positive, Within, check_options
from evenstream.core.stateful import WithoutClasses
from evenstream.errors import CheckpointError, EvenstreamError, InputError, shown

if TYPE_CHECKING:
    from river.drift import ADWIN

__all__ = ["Adwin", "Drift", "Signal"]

Signal = Literal["accuracy", "loss", "inputs"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)
Certainty = Annotated[float, Within(1e-12, 0.5)]
BEGINNING = 200
"""Rows that say what inputs are like, at first and after each change of them."""
HALF: dict[Signal, float] = {"loss": 1.0, "inputs": 4.0}
"""What becomes 1/2 when values are brought to between 0 and 1: more than is usual."""
RECENT = 10
"""Values whose mean is told as that after a change."""
COLUMNS = 4096
"""Of more, so many are looked at, evenly spread."""


@dataclass(frozen=True)
class Drift:
    """A change that was noticed."""

    step: int
    """The step after which it was."""
    signal: Signal
    """What has changed."""
    before: float
    """Its mean before the change was noticed."""
    after: float
    """Its mean over the last ten steps."""

    def __str__(self) -> str:
        if self.signal == "inputs":
            how = "further from" if self.after > self.before else "closer to"
            return (
                f"batches of inputs are {how} the mean of the first rows: {self.after:.3g} squared "
                f"standard errors, {self.before:.3g} until now"
            )
        if self.signal == "accuracy":
            return f"accuracy on new rows fell from {self.before:.1%} to {self.after:.1%}"
        return f"the loss rose from {self.before:.3g} to {self.after:.3g}"


@dataclass(eq=False)
class Adwin:
    """Bifet and Gavaldà's adaptive windows, as River has them (`evenstream[river]`).

    Each signal has a window that grows as long as it is of one piece, and is cut where the means of
    its two parts differ by more than chance. A value is that of a step, so a batch of one row is
    noisier than one of ten. Accuracy and loss count as changed when they have become worse.
    """

    delta: Certainty = 0.002
    """Chance of a false alarm, for each signal and place to cut; a smaller one notices later."""
    clock: Positive = 1
    """Steps between looks."""
    accuracy: bool = True
    """Watch the accuracy on rows before they are learned, where the method measures it."""
    loss: bool = True
    """Watch the training loss."""
    inputs: bool = True
    """Watch how far each batch of inputs is from the mean of the first 200 rows."""
    on_drift: Callable[[Drift], object] | None = None
    """Called with each change, after the step; it is not saved."""

    SETTINGS: ClassVar = ("delta", "clock", *SIGNALS)

    def __post_init__(self) -> None:
        check_options(self)
        if not (self.on_drift is None or callable(self.on_drift)):
            raise InputError(f"on_drift must be a function of a Drift, got {shown(self.on_drift)}")
        if not self.signals:
            raise InputError("there is nothing to watch: accuracy, loss and inputs are all False")
        self.window()

    @property
    def signals(self) -> list[Signal]:
        """What is watched."""
        return [name for name in SIGNALS if getattr(self, name)]

    def settings(self) -> dict[str, Any]:
        """All but the function, as plain values."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    def window(self) -> ADWIN:
        """An empty window."""
        try:
            from river.drift import ADWIN
        except ImportError as error:
            raise EvenstreamError(
                f"watching for drift needs River ({error}): pip install 'evenstream[river]'"
            ) from error
        return ADWIN(delta=self.delta, clock=self.clock)  # type: ignore[no-untyped-call]


def distance(sums: Tensor | None, raw: Tensor) -> tuple[float | None, Tensor]:
    """How far a batch's mean is from that of the first rows, and the sums over those.

    In squared standard errors, as a mean over columns: about 1 where rows come as they did at
    first, whatever their number. None as long as these are being gathered. The sums are rows, means
    and squared differences from those.
    """
    rows = raw.flatten(1)
    rows = rows[:, :: -(-rows.shape[1] // COLUMNS)].double()
    if sums is None or sums.shape[1] != rows.shape[1]:
        sums = rows.new_zeros(3, rows.shape[1])
    (count, mean, squares), new = sums, rows.mean(0)
    apart = (new - mean).square()
    if float(count[0]) >= BEGINNING:
        variance = (squares / count).clamp_min(1e-12 * (1 + mean.square()))
        return float((len(rows) * apart / variance).mean()), sums
    total = count + len(rows)
    spread = (rows - new).square().sum(0) + apart * count * len(rows) / total
    return None, torch.stack([total, mean + (new - mean) * len(rows) / total, squares + spread])


class Drifting(WithoutClasses):
    """What a learner's detectors know; nothing is watched without an `Adwin`."""

    def __init__(self) -> None:
        self.watch: Adwin | None = None
        self.begin(None)

    def begin(self, watch: Adwin | None) -> None:
        """Watch from now on, or no more."""
        if not isinstance(watch, Adwin | None):
            raise InputError(f"drift must be an Adwin (evenstream.drift), got {shown(watch)}")
        self.watch = watch
        signals = [] if watch is None else watch.signals
        self.windows = {name: watch.window() for name in signals} if watch is not None else {}
        self.found = dict.fromkeys(signals, 0)
        """How many changes were noticed."""
        self.recent: dict[Signal, tuple[float, ...]] = dict.fromkeys(signals, ())
        """The last values: where a window is cut, they are what comes after."""
        self.sums: Tensor | None = None
        """Over inputs; see `distance`."""

    def look(
        self, step: int, accuracy: float | None, loss: float | None, raw: Tensor
    ) -> tuple[Drift, ...]:
        """The changes that a step shows."""
        values: dict[Signal, float | None] = {
            "accuracy": None if accuracy is None else 1 - accuracy,
            "loss": _bounded("loss", loss),
            "inputs": _bounded("inputs", self._take(raw)) if "inputs" in self.windows else None,
        }
        return tuple(
            change
            for name, window in self.windows.items()
            if (value := values[name]) is not None
            and (change := self._change(step, name, window, value)) is not None
        )

    def _take(self, raw: Tensor) -> float | None:
        found, self.sums = distance(self.sums, raw)
        return found

    def _change(self, step: int, name: Signal, window: ADWIN, value: float) -> Drift | None:
        before = window.estimation
        window.update(value)  # type: ignore[no-untyped-call]
        recent = (*self.recent[name], value)[-RECENT:]
        self.recent = {**self.recent, name: recent}
        after = sum(recent) / len(recent)
        if not window.drift_detected or (name != "inputs" and after <= before):
            return None
        self.found = {**self.found, name: self.found[name] + 1}
        if name == "inputs":
            self.sums = None
        return Drift(step, name, _as_told(name, before), _as_told(name, after))

    def says(self) -> str:
        """What `print(learner)` tells."""
        told = ", ".join(f"{count:,} of {name}" for name, count in self.found.items())
        return f"watched by ADWIN, changes noticed: {told}"

    # ---- `Stateful` ----------------------------------------------------------------------------

    def mark(self) -> Any:
        """What there is, and what is in the windows, which change in place."""
        return dict(vars(self)), {name: _saved(window) for name, window in self.windows.items()}

    def restore(self, mark: Any) -> None:
        """Go back to the last mark."""
        own, windows = mark
        vars(self).update(own)
        for name, saved in windows.items():
            _fill(self.windows[name], *saved)

    def settle(self) -> None:
        """Nothing was noted."""

    def state(self) -> dict[str, Any] | None:
        """Settings, and what is in the windows; None if nothing is watched."""
        if self.watch is None:
            return None
        windows: dict[str, dict[str, Any]] = {}
        for name, window in self.windows.items():
            content, cut = _saved(window)
            held = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            windows[name] = {"content": held, "cut": cut}
        return {
            "settings": self.watch.settings(),
            "river": version("river"),
            "windows": windows,
            "found": dict(self.found),
            "recent": {name: list(values) for name, values in self.recent.items()},
            "inputs": self.sums,
        }

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Go on watching; the function that is told is the one that was given here, if any."""
        if state is None:
            return
        saved = Adwin(**state["settings"])
        if self.watch is not None and self.watch.settings() != saved.settings():
            raise CheckpointError(
                f"the saved learner watches with {_written(saved)}, not with "
                f"{_written(self.watch)}; leave drift= out"
            )
        self.begin(self.watch or saved)
        self.found = {name: int(state["found"][name]) for name in self.found}
        self.recent = {name: tuple(map(float, state["recent"][name])) for name in self.recent}
        sums = state["inputs"]
        if sums is not None and not (isinstance(sums, Tensor) and sums.shape[:-1] == (3,)):
            raise TypeError("its sums over inputs are none")
        self.sums = None if sums is None else sums.clone()
        if state["river"] != version("river"):
            return  # windows begin anew: another version may write them in another way
        for name, window in self.windows.items():
            content, cut = (state["windows"][name][entry] for entry in ("content", "cut"))
            if not (isinstance(content, Tensor) and content.dtype == torch.uint8):
                raise TypeError("what was in a window of ADWIN is not bytes")
            _fill(window, bytes(content.flatten().tolist()), bool(cut))


def _written(watch: Adwin) -> str:
    return f"Adwin({', '.join(f'{name}={value}' for name, value in watch.settings().items())})"


def _bounded(name: Signal, value: float | None) -> float | None:
    """Between 0 and 1, as ADWIN takes values."""
    return None if value is None else max(value, 0.0) / (HALF[name] + max(value, 0.0))


def _as_told(name: Signal, value: float) -> float:
    return 1 - value if name == "accuracy" else HALF[name] * value / max(1 - value, 1e-9)


def _saved(window: ADWIN) -> tuple[bytes, bool]:
    """What is in a window, as River writes it for copies, and whether it was cut just now."""
    return window._helper.__getstate__(), bool(window.drift_detected)


def _fill(window: ADWIN, content: bytes, cut: bool) -> None:
    """The inverse of `_saved`."""
    try:
        window._helper.__setstate__(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # which is what River's own errors are
        raise ValueError(f"River cannot read what was in a window: {error}") from None
    window._drift_detected = cut

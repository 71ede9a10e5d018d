"""Detects changes in a stream: River's ADWIN watches accuracy, loss and inputs.

Use it with `Learner(drift=drift.Adwin())`. The detectors' state is part of the learner: it is saved
with it, and a resumed learner notices the same as one that was never stopped.
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
"""Number of reference rows for inputs, taken at the start and after each change."""
HALF: dict[Signal, float] = {"loss": 1.0, "inputs": 4.0}
"""The value that maps to 1/2 when values are scaled to 0..1; larger than usual."""
RECENT = 10
"""Number of values averaged as the mean after a change."""
COLUMNS = 4096
"""If there are more columns, this many are watched, evenly spread."""


@dataclass(frozen=True)
class Drift:
    """A detected change."""

    step: int
    """The step after which it was detected."""
    signal: Signal
    """What changed."""
    before: float
    """Its mean before the change was detected."""
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
    """Bifet and Gavaldà's adaptive windows, as implemented by River (`evenstream[river]`).

    Each signal has a window that grows as long as it is homogeneous, and is cut where the means of
    its two parts differ by more than chance. There is one value per step, so a batch of one row is
    noisier than one of ten. Accuracy and loss count as changed when they get worse.
    """

    delta: Certainty = 0.002
    """Probability of a false alarm, per signal and possible cut; a smaller one reacts later."""
    clock: Positive = 1
    """Steps between checks."""
    accuracy: bool = True
    """Watch the accuracy on rows before they are learned, if the method measures it."""
    loss: bool = True
    """Watch the training loss."""
    inputs: bool = True
    """Watch how far each batch of inputs is from the mean of the first 200 rows."""
    on_drift: Callable[[Drift], object] | None = None
    """Called with each change, after the step; not saved."""

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
        """All settings but the function, as plain values."""
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
    """Distance of a batch's mean from that of the reference rows, and the sums over those.

    The distance is in squared standard errors, averaged over columns: about 1 while rows arrive as
    they did at first, whatever their number, and None while the reference rows are being collected.
    The sums are the number of rows, the means and the squared deviations from them.
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
    """The state of a learner's detectors; nothing is watched without an `Adwin`."""

    def __init__(self) -> None:
        self.watch: Adwin | None = None
        self.begin(None)

    def begin(self, watch: Adwin | None) -> None:
        """Start or stop watching."""
        if not isinstance(watch, Adwin | None):
            raise InputError(f"drift must be an Adwin (evenstream.drift), got {shown(watch)}")
        self.watch = watch
        signals = [] if watch is None else watch.signals
        self.windows = {name: watch.window() for name in signals} if watch is not None else {}
        self.found = dict.fromkeys(signals, 0)
        """Number of changes detected."""
        self.recent: dict[Signal, tuple[float, ...]] = dict.fromkeys(signals, ())
        """The last values, which follow the cut when a window is cut."""
        self.sums: Tensor | None = None
        """Sums over inputs; see `distance`."""

    def look(
        self, step: int, accuracy: float | None, loss: float | None, raw: Tensor
    ) -> tuple[Drift, ...]:
        """The changes detected in a step."""
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
        """Its line in `print(learner)`."""
        told = ", ".join(f"{count:,} of {name}" for name, count in self.found.items())
        return f"watched by ADWIN, changes detected: {told}"

    # ---- `Stateful` ----------------------------------------------------------------------------

    def mark(self) -> Any:
        """The values, and the contents of the windows, which change in place."""
        return dict(vars(self)), {name: _saved(window) for name, window in self.windows.items()}

    def restore(self, mark: Any) -> None:
        """Go back to the last mark."""
        own, windows = mark
        vars(self).update(own)
        for name, saved in windows.items():
            _fill(self.windows[name], *saved)

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any] | None:
        """Settings and window contents; None if nothing is watched."""
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
        """Continue watching; the callback is the one given here, if any."""
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
            raise TypeError("its sums over inputs are invalid")
        self.sums = None if sums is None else sums.clone()
        if state["river"] != version("river"):
            return  # windows start over: another version may store them differently
        for name, window in self.windows.items():
            content, cut = (state["windows"][name][entry] for entry in ("content", "cut"))
            if not (isinstance(content, Tensor) and content.dtype == torch.uint8):
                raise TypeError("the contents of an ADWIN window are not bytes")
            _fill(window, bytes(content.flatten().tolist()), bool(cut))


def _written(watch: Adwin) -> str:
    return f"Adwin({', '.join(f'{name}={value}' for name, value in watch.settings().items())})"


def _bounded(name: Signal, value: float | None) -> float | None:
    """Scaled to 0..1, as ADWIN requires."""
    return None if value is None else max(value, 0.0) / (HALF[name] + max(value, 0.0))


def _as_told(name: Signal, value: float) -> float:
    return 1 - value if name == "accuracy" else HALF[name] * value / max(1 - value, 1e-9)


def _saved(window: ADWIN) -> tuple[bytes, bool]:
    """The contents of a window, as River serialises copies, and whether it was just cut."""
    return window._helper.__getstate__(), bool(window.drift_detected)


def _fill(window: ADWIN, content: bytes, cut: bool) -> None:
    """The inverse of `_saved`."""
    try:
        window._helper.__setstate__(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # as River's own errors are
        raise ValueError(f"River cannot read the contents of a window: {error}") from None
    window._drift_detected = cut

"""What a run says while it works: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evenstream.printable import printable
from evenstream.showing import PLAIN_EVERY_SECONDS, Line, in_notebook

if TYPE_CHECKING:
    from rich.console import Console

    from evenstream.core.step import StepResult


class Progress:
    """What a run reports to; every call is optional to act on."""

    def start(self, method: str, seed: int, steps: int, done: int) -> None:
        """The run starts, or continues after `done` steps."""

    def expect(self, steps: int) -> None:
        """The run turns out to have another number of steps: a task's rows were held out."""

    def step(self, result: StepResult, samples: int) -> None:
        """A step was made."""

    def online(self, accuracy: float | None) -> None:
        """The accuracy on the classes observed so far was measured."""

    def evaluating(self, task: int) -> None:
        """A task is over and is being evaluated."""

    def evaluated(self, task: int, average: float | None) -> None:
        """The average accuracy after a task is known."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Silent(Progress):
    """Says nothing (workers of a comparison)."""


class _Counting(Progress):
    """Keeps the numbers that both forms show."""

    part = "task"
    """What comes to an end when there is an evaluation."""

    def start(self, method: str, seed: int, steps: int, done: int) -> None:
        """Remember the totals and the clock."""
        self.title = f"{method}  seed {seed}"
        self.steps, self.done, self.first = steps, done, done
        self.samples, self.began = 0, time.monotonic()
        self.loss = self.seen = ""

    def expect(self, steps: int) -> None:
        """Remember the new total."""
        self.steps = steps

    def step(self, result: StepResult, samples: int) -> None:
        """Count."""
        self.done = result.step
        self.samples += samples
        if result.loss is not None:
            self.loss = f"loss {result.loss:.3f}"

    def online(self, accuracy: float | None) -> None:
        """Show it from now on."""
        self.seen = f"online accuracy {_percent(accuracy)}"

    def status(self) -> str:
        """Loss, online accuracy and speed, as far as there are any."""
        elapsed = max(time.monotonic() - self.began, 1e-9)
        speed = f"{self.samples / elapsed:,.0f} samples/s"
        return "  ".join(filter(None, [self.loss, self.seen, speed]))


class PlainLines(_Counting):
    """A line every few seconds and one for each task: readable in a log file."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._said = time.monotonic()

    def start(self, method: str, seed: int, steps: int, done: int) -> None:
        """Say what begins."""
        super().start(method, seed, steps, done)
        self._print(f"from step {done} of {steps}")

    def step(self, result: StepResult, samples: int) -> None:
        """Say something now and then."""
        super().step(result, samples)
        if time.monotonic() - self._said > PLAIN_EVERY_SECONDS:
            elapsed = time.monotonic() - self.began
            left = elapsed / max(self.done - self.first, 1) * (self.steps - self.done)
            self._print(f"step {self.done}/{self.steps}  {self.status()}  {left:.0f} s left")

    def evaluated(self, task: int, average: float | None) -> None:
        """Say how well the task went."""
        self._print(f"after {self.part} {task + 1}: average accuracy {_percent(average)}")

    def _print(self, text: str) -> None:
        self._said = time.monotonic()
        self.console.print(f"{self.title}: {text}", highlight=False, soft_wrap=True)


class LiveBar(_Counting):
    """One bar with step, loss, samples a second and time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=console,
        )

    def start(self, method: str, seed: int, steps: int, done: int) -> None:
        """Show the bar."""
        super().start(method, seed, steps, done)
        self._task = self._bar.add_task(self.title, total=steps, completed=done, status="")
        self._bar.start()

    def expect(self, steps: int) -> None:
        """Make the bar shorter or longer."""
        super().expect(steps)
        self._bar.update(self._task, total=steps)

    def step(self, result: StepResult, samples: int) -> None:
        """Move the bar."""
        super().step(result, samples)
        self._bar.update(self._task, completed=self.done, status=self.status())

    def evaluating(self, task: int) -> None:
        """Say why the bar stands still."""
        self._bar.update(self._task, status=f"evaluating after {self.part} {task + 1}")

    def evaluated(self, task: int, average: float | None) -> None:
        """Print a line above the bar."""
        text = f"  after {self.part} {task + 1}: average accuracy {_percent(average)}"
        self._bar.console.print(text, highlight=False)
        self._bar.update(self._task, status=self.status())

    def close(self) -> None:
        """Stop drawing."""
        self._bar.stop()


class NotebookLine(_Counting):
    """One line below a cell that changes in place."""

    def __init__(self) -> None:
        self._line, self._said = Line(), ""

    def start(self, method: str, seed: int, steps: int, done: int) -> None:
        """Show the line."""
        super().start(method, seed, steps, done)
        self._show()

    def step(self, result: StepResult, samples: int) -> None:
        """Count."""
        super().step(result, samples)
        self._show()

    def evaluated(self, task: int, average: float | None) -> None:
        """Keep the last accuracy in the line."""
        self._said = f"after {self.part} {task + 1}: average accuracy {_percent(average)}"
        self._show()

    def close(self) -> None:
        """Leave the last state standing."""
        self._line.close()

    def _show(self) -> None:
        said = f"step {self.done}/{self.steps}  {self.status()}  {self._said}"
        self._line.show(f"{self.title}: {said.rstrip()}")


def make_progress(console: Console, part: str = "task") -> Progress:
    """The form that suits where the output goes."""
    if in_notebook():
        progress: _Counting = NotebookLine()
    else:
        progress = LiveBar(console) if console.is_terminal else PlainLines(console)
    progress.part = part
    return progress


def format_warning(message: Warning | str, *where: Any, **line: Any) -> str:
    """A warning for users: what it says, not which line of the library says it."""
    return f"warning: {printable(str(message))}\n"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} %"

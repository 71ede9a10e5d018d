"""`evenstream export`: a saved learner as one file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from evenstream.printable import say


def export(
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
) -> int:
    """Export a saved learner to one file that predicts without evenstream.

    Example: evenstream export plant plant.onnx

    The file takes raw inputs, as `predict` does, in batches of any size, and returns a probability
    for each label; the labels are in its metadata.

    Args:
        directory: Folder of the learner, or of a run.
        file: File to write: .onnx for ONNX runtimes (needs evenstream[onnx]), .pt2 for
            torch.export.load.
    """
    from evenstream.live.learner_folder import read_learner

    learner, _ = read_learner(directory, "cpu")
    learner.export(file)
    say(f"{file}: {learner.text} after {learner.step:,} steps, {len(learner.labels):,} labels")
    return 0

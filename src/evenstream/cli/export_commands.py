"""`evenstream export`: a saved learner as one file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from evenstream.errors import count
from evenstream.printable import say


def export(
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
) -> int:
    """Export a saved learner to one file that predicts without evenstream.

    Example: evenstream export plant plant.onnx

    The file takes batches of any size and returns a probability for each label; the labels are in
    its metadata. It takes raw inputs, as `predict` does. For a table, that holds only if every
    column is a number without gaps. Otherwise what turns rows into inputs is in the metadata, too:
    TableEncoder.from_state(json.loads(metadata["table"])).encode_frame(frame).

    Args:
        directory: Folder of the learner, or of a run.
        file: File to write: .onnx for ONNX runtimes (needs evenstream[onnx]), .pt2 for
            torch.export.load.
    """
    from evenstream.live.learner_folder import read_learner

    learner, _ = read_learner(directory, "cpu")
    learner.export(file)
    steps, labels = count(learner.step, "step"), count(len(learner.labels), "label")
    say(f"{file}: {learner.text} after {steps}, {labels}")
    table = learner.table
    if table is not None and table.width != len(table.names):
        say(
            f"it takes {table.width} inputs, made of {len(table.names)} columns by "
            'TableEncoder.from_state(json.loads(metadata["table"])).encode_frame(frame); '
            'metadata["inputs"] says what each is'
        )
    return 0

"""Exported files, run without the learner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from evenstream import Learner

CLOSE = 1e-5


def loaded(file: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Probabilities by the file."""
    if file.suffix == ".pt2":
        module = torch.export.load(file).module()
        return lambda x: module(torch.from_numpy(x)).numpy()
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return lambda x: session.run(["probabilities"], {"x": x})[0]


def metadata(file: Path) -> dict[str, object]:
    """What a file says of itself."""
    if file.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        found = session.get_modelmeta().custom_metadata_map
        return {n: json.loads(v) if v[:1] in "[{" else v for n, v in found.items()}
    found = {"evenstream.json": ""}
    torch.export.load(file, extra_files=found)
    return json.loads(found["evenstream.json"])


def agrees(learner: Learner, x: np.ndarray, file: Path, within: float = CLOSE) -> None:
    """The learner's file gives its probabilities, for any number of rows, and it stays as it is."""
    before = learner.fingerprint()
    assert learner.export(file) == file
    assert learner.fingerprint() == before
    probabilities = loaded(file)
    for rows in (x, x[:2], x[:1]):
        expected = learner.predict_proba(rows)
        np.testing.assert_allclose(probabilities(rows), expected, rtol=0, atol=within)

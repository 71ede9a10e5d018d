"""Exports a learner to one file that runs without it: raw inputs in, probabilities out.

The file holds the network, the inference rule's state and the labels, but no rows of the stream and
nothing that only learning needs.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenstream.core.classifier import Classifier
from evenstream.core.outputs import InferenceContext, OutputsOnDemand
from evenstream.errors import EvenstreamError, InputError, calling
from evenstream.files import given_path, write_atomically
from evenstream.learner.engine import Engine
from evenstream.networks.convolution import Convolution
from evenstream.version import __version__

if TYPE_CHECKING:
    from torch.export import ExportedProgram

INPUT, OUTPUT, BATCH = "x", "probabilities", "batch"
METADATA = "evenstream.json"
"""The file inside a .pt2 file that holds what an .onnx file has as metadata properties."""
EXAMPLES = 3
"""Number of rows to trace with; PyTorch would treat 0 or 1 as constants."""
NOISY = ("torch.onnx", "torch.fx", "torch.export")
"""Loggers with messages for PyTorch's developers."""

Metadata = dict[str, Any]


class Predictor(nn.Module):
    """A copy of everything that a learner needs to predict, in float32."""

    def __init__(self, learner: Engine) -> None:
        super().__init__()
        used = learner.network, learner.composition, learner.preprocess
        self.network, composition, self.preprocess = copy.deepcopy(used)
        self.rule, front = composition.rule, learner.front
        self.front = nn.Identity() if front is None else front.as_module()
        for part in (composition.method, composition.rule):
            for name, module in part.modules.items():
                self.add_module(f"{part.name}_{name}".replace(".", "_"), module)
        for module in self.modules():
            _use_plain_operations(module)
        self.eval().requires_grad_(False)
        self.n_classes = len(learner.label_map)
        with torch.no_grad():
            context = InferenceContext(self.network, learner.memory, self.preprocess)
            self.prepared = self.rule.prepare(context)
        self.rule.before_export()

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities, one row for each input and one column for each label."""
        outputs = OutputsOnDemand(self.network, self._inputs(x), self.n_classes)
        scores = self.rule.scores(outputs, self.prepared).float()
        return scores[:, : self.n_classes].softmax(1)

    def _inputs(self, x: Tensor) -> Tensor:
        return self.preprocess.plain(self.front(x))


def _use_plain_operations(module: nn.Module) -> None:
    """Disable autocast and our own kernels, which depend on the processor and the batch."""
    if isinstance(module, Classifier):
        module.dtype = torch.float32
    if isinstance(module, Convolution):
        module.own_kernels = False


def export_learner(learner: Engine, path: str | Path) -> Path:
    """Write a learner's predictor as a program, in the format given by the file's suffix."""
    file = given_path("path", path)
    write = FORMATS.get(file.suffix.lower())
    if write is None:
        raise InputError(f"export writes {' and '.join(FORMATS)} files, {file.name} is neither")
    if write is _as_onnx:
        _check_onnx()
    if not learner.built or not len(learner.label_map):
        raise InputError("there is nothing to export before the first batch has been learned")
    metadata: Metadata = {
        "labels": list(learner.label_map),
        "method": learner.text,
        "steps": learner.step,
        "evenstream": __version__,
    }
    table = learner.known_table.encoder
    if table is not None:
        metadata["columns"] = table.names
        if not table.plain:
            metadata |= {"table": table.state(), "inputs": table.inputs_in_words}
    model = learner.model if isinstance(learner.model, str) else type(learner.model).__name__
    what = f"{learner.text} with the network {model}"
    with calling(what, "cannot be exported"), _quiet(), torch.no_grad():
        with learner.network.passes.instead(0):  # tracing does not count as passes
            program = _traced(learner)
        content = write(program, metadata)
    try:
        write_atomically(file, content)
    except OSError as error:
        missing = "" if file.parent.exists() else f" (the folder {file.parent} does not exist)"
        why = error.strerror or error
        raise EvenstreamError(f"cannot write {file}: {why}{missing}") from error
    return file


def _traced(learner: Engine) -> ExportedProgram:
    """The predictor as a graph of PyTorch operations, for any number of rows."""
    from torch.export import Dim, export

    predictor = Predictor(learner)
    kind = learner.input_kind
    assert kind is not None
    row = kind.example().to(learner.device)
    examples = row.expand(EXAMPLES, *row.shape[1:]).contiguous()
    predictor(examples)  # constants that it creates on the way are created now
    rows = {0: Dim(BATCH, min=1)}
    return _without_unused(export(predictor, (examples,), dynamic_shapes=(rows,), strict=False))


def _without_unused(program: ExportedProgram) -> ExportedProgram:
    """Leave out weights not needed for prediction, such as the network's under a moving average."""
    signature, graph = program.graph_signature, program.graph
    graph.eliminate_dead_code()
    given = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    for spec in list(signature.input_specs):
        node = given[spec.arg.name]
        if spec.target is not None and not node.users:
            graph.erase_node(node)
            signature.input_specs.remove(spec)
            for kept in (program.state_dict, program.constants):
                kept.pop(spec.target, None)
    program.graph_module.recompile()
    return program


def _as_pt2(program: ExportedProgram, metadata: Metadata) -> bytes:
    """For `torch.export.load`."""
    from torch.export import save

    file = io.BytesIO()
    save(program, file, extra_files={METADATA: json.dumps(metadata)})
    return file.getvalue()


def _as_onnx(program: ExportedProgram, metadata: Metadata) -> bytes:
    """For any ONNX runtime."""
    made = torch.onnx.export(
        program, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False
    )
    assert made is not None
    model = made.model_proto
    drawn = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param  # a name such as s77
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param == drawn:
                size.dim_param = BATCH
    for name, content in metadata.items():
        text = content if isinstance(content, str) else json.dumps(content)
        model.metadata_props.add(key=name, value=text)
    serialised: bytes = model.SerializeToString()
    return serialised


FORMATS: dict[str, Callable[[ExportedProgram, Metadata], bytes]] = {
    ".onnx": _as_onnx,
    ".pt2": _as_pt2,
}


def _check_onnx() -> None:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise EvenstreamError(
            f"an .onnx file needs {' and '.join(missing)}: pip install 'evenstream[onnx]', or "
            "export to .pt2"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide PyTorch's internal messages from the user."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

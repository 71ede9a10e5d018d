"""Decides when two configurations are the same run, however they are written."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from evenstream import networks
from evenstream.errors import EvenstreamError
from evenstream.run.config import RunConfig
from evenstream.streams.opening import canonical_name
from evenstream.streams.scenario import ClassOrder

NO_RESULT_DEPENDS_ON = {
    "checkpoint_every": "a resumed run is the same as an uninterrupted one, bit for bit",
    "weights": "where the file is; what is in it counts, and that is `weights_sha256`",
}
"""Fields that are not part of a run's key, and why."""


@cache
def run_key(config: RunConfig) -> str:
    """The name of a run: 16 hexadecimal digits from everything that its result depends on.

    A field with its default is left out, so that a field added by a later version, whose default is
    the earlier behaviour, does not change the names of earlier runs. The same goes for the options
    of methods and streams: see `canonical`.
    """
    typed = RunConfig.from_values(Path("settings"), config.values())  # 1 and 1.0 are equal
    typed = canonical(typed)
    values = {
        field.name: _written(getattr(typed, field.name))
        for field in fields(typed)
        if field.name not in NO_RESULT_DEPENDS_ON
        and (field.name in RunConfig.ALWAYS_WRITTEN or getattr(typed, field.name) != field.default)
    }
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(value: Any) -> Any:
    """Lists become text, as in versions before 0.2."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def canonical(config: RunConfig) -> RunConfig:
    """The same run with its method and stream in canonical form.

    `er-las:tau=1` is `er-las`, `er-las:tau=0` is `er`, bit for bit, `las` is `fine-tune-las`,
    `c-digits` with `tasks = 5` is `c-digits:tasks=5`. Names unknown to this version stay unchanged.
    Imports PyTorch.
    """
    with suppress(EvenstreamError):
        config = replace(config, method=_method(config.method))
    with suppress(EvenstreamError):
        config = replace(config, network=networks.canonical_name(config.network))
    with suppress(EvenstreamError):
        stream = _stream(config.stream, config.tasks, config.class_order)
        config = replace(config, stream=stream, tasks=None, class_order="label")
    return config


@cache
def _method(spec: str) -> str:
    from evenstream.composition import compose
    from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax

    composition = compose(spec)
    criterion, own = composition.criterion, composition.method.make_criterion()
    unused = isinstance(criterion, LogitAdjustedSoftmax) and not criterion.tau
    if unused and not isinstance(own, LogitAdjustedSoftmax):
        composition = replace(composition, criterion=CrossEntropy())
    return composition.text


@cache
def _stream(name: str, tasks: int | None, class_order: ClassOrder) -> str:
    return canonical_name(name, tasks=tasks, class_order=class_order)

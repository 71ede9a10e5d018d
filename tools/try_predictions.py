"""Train once and predict in many ways: how much averages of the weights are worth, and which.

`python tools/try_predictions.py er-las found.jsonl --set optimizer=muon lr=0.02` trains on
C-CIFAR100 with a tenth of the training images held out, follows the network with moving averages of
several decays, and appends A_T on the held-out images for the network, each average, and mixes of
the two. Training is that of `evenstream run`, so a search needs one training for all of them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenstream.core.averaging import moved_average
from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.outputs import outputs
from evenstream.core.step import Step
from evenstream.learner.learner import Learner
from evenstream.policies.rules.argmax import ArgMax
from evenstream.policies.rules.rule import register_rule
from evenstream.run.config import RunConfig
from evenstream.run.preparation import begin_first_task, make_learner, prepare
from evenstream.streams import Stream
from evenstream.text import option_types

DECAYS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.9975)
MIXES = (0.3, 0.5, 0.7)
SETTINGS = {
    "network": "slim-resnet18",
    "augment": "crop+flip",
    "memory": 2000,
    "dtype": "float32",
    "seed": 100,
    "batch": 32,
    "replay_batch": 32,
    "lr": 0.001,
    "optimizer": "adamw",
    "weight_decay": 0.0001,
}


@register_rule("followed")
@dataclass
class Followed(ArgMax):
    """The network predicts, and averages of it are kept."""

    moves_weights = True

    def after_step(self, step: Step) -> None:
        """Move every average."""
        for decay in map(str, DECAYS):
            average = moved_average(self.modules.get(decay), step.network, float(decay))
            self.modules[decay] = average


def main() -> None:
    """Train with the settings of the command line and append a line to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("out")
    parser.add_argument("--stream", default="c-cifar100:validation=10")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    kinds = option_types(RunConfig)
    settings: dict[str, Any] = dict(SETTINGS)
    for text in given.set:
        name, _, value = text.partition("=")
        settings[name] = kinds[name](value) if kinds[name] in (int, float) else value
    config = RunConfig(method=f"{given.method}@followed", stream=given.stream, **settings)
    torch.set_num_threads(1)
    stream = prepare(config)
    learner = make_learner(config, stream)
    begin_first_task(learner, stream)
    for task in range(len(stream)):
        if task:
            learner.end_task()
            learner.start_task(stream.label_counts(task))
        for batch in stream.batches(task, config.batch):
            learner.learn(batch.x, batch.labels)
    passes = round(learner.passes.count)
    found = {"method": given.method, "set": given.set, "seed": config.seed, "passes": passes}
    with Path(given.out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found | {"A_T": measured(learner, stream)}) + "\n")


def measured(learner: Learner, stream: Stream) -> dict[str, float]:
    """A_T of the network, of each average, and of mixes, in %."""
    networks: dict[str, Any] = {"network": learner.network, **learner.composition.rule.modules}
    right: dict[str, list[float]] = {}
    for task in stream.tasks:
        x = torch.from_numpy(np.ascontiguousarray(stream.dataset.x_test[task.test]))
        truth = [stream.dataset.classes[each] for each in stream.dataset.y_test[task.test]]
        y = torch.tensor([learner.labels.index(label) for label in truth])
        scores = {name: _scores(learner, network, x) for name, network in networks.items()}
        for decay in map(str, DECAYS):
            for mix in MIXES:
                both = (1 - mix) * scores[decay] + mix * scores["network"]
                scores[f"{decay}, mix {mix}"] = both
        for name, each in scores.items():
            right.setdefault(name, []).append(float((each.argmax(1) == y).float().mean()))
    return {name: round(100 * float(np.mean(values)), 2) for name, values in right.items()}


def _scores(learner: Learner, network: Classifier, x: torch.Tensor) -> torch.Tensor:
    with evaluation_mode(network), torch.no_grad():
        parts = [out.logits.log_softmax(1) for out in outputs(learner, network, x)]
    return torch.cat(parts)


if __name__ == "__main__":
    main()

"""User code that type checkers must accept; nothing here is run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenstream import (
    CrossEntropy,
    EvenstreamError,
    Learner,
    LearnerState,
    LogitAdjustedSoftmax,
    Method,
    Step,
    StepResult,
    TableEncoder,
    follow,
    heads,
    methods,
    networks,
    priors,
    register,
    register_dataset,
    register_head,
    register_metric,
    register_network,
    register_rule,
    register_scenario,
    register_source,
    retrieval,
    rules,
    storing,
    streams,
)
from evenstream.data import Dataset, from_arrays
from evenstream.river import Classifier
from evenstream.sklearn import OnlineClassifier

net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
x = np.zeros((8, 64), dtype=np.float32)
labels = ["cat", "dog"] * 4


# ---- composition ---------------------------------------------------------------------------------


def two_rates(groups: Mapping[str, Sequence[nn.Parameter]]) -> torch.optim.Optimizer:
    return torch.optim.AdamW([{"params": list(group), "lr": 0.01} for group in groups.values()])


def noisy(images: Tensor) -> Tensor:
    return images + 0.1 * torch.randn_like(images)


learner = Learner(
    methods.MIR(subsample=64),
    model=net,
    criterion=LogitAdjustedSoftmax(tau=2, window=5),
    head=heads.Cosine(scale=10),
    predict=rules.MovingAverage(decay=0.99),
    memory=1000,
)
Learner()
Learner("er-las:tau=2@ncm", "mlp", memory=100, lr=0.1, optimizer="adam", seed=3, device="cpu")
Learner(methods.ER(reduction="sum-of-means"), optimizer=two_rates, augment=noisy, dtype="float32")
Learner(
    methods.DERpp(),
    "slim-resnet18",
    criterion=LogitAdjustedSoftmax(prior=priors.ExponentialWindow(decay=0.9)),
    retrieval=retrieval.Uniform(),
    storing=storing.Reservoir(),
    predict="ncm",
    augment="crop+flip",
    mean=(0.5, 0.5, 0.5),
    std=[0.2, 0.2, 0.2],
    scope="all",
    head_size=10,
    device=torch.device("cpu"),
    weights=Path("weights.safetensors"),
)
for method in (methods.FineTune(), methods.ERACE(), methods.SCR(), methods.MKD(), methods.CLIB()):
    assert_type(Learner(method).fingerprint(), str)


# ---- what a learner gives ------------------------------------------------------------------------

result: StepResult = learner.learn(x, labels)
assert_type(result.loss, float | None)
assert_type(result.accuracy, float | None)
assert_type(result.step, int)
learner.learn(torch.zeros(2, 64), torch.tensor([0, 1]), store=False)
flushed: StepResult | None = learner.flush()
held_out: list[int] = learner.start_task({"cat": 3, "dog": 5})
learner.end_task()
for label in learner.predict(x):
    print(label)
probabilities: np.ndarray[Any, np.dtype[np.float32]] = learner.predict_proba(x, {"cat": 0.9})
print(probabilities.argmax(axis=1).tolist(), learner.labels[0])
assert_type(learner.step, int)
assert_type(learner.lr, float)
learner.lr = 0.01
learner.lr = learner.lr / 2
state: dict[str, Any] = learner.state()
asked: list[str] = learner.ask(x, {"cat": 0.9}, ids=range(8), costs={"cat": 2}, reject=0.1).tickets
scores: NDArray[np.float32] = learner.scores(x)
Learner(table=TableEncoder.infer({"a": [1, 2]}), open_tickets=10, ticket_steps=100)
assert_type(OnlineClassifier("er", lr=0.1, epochs=2).fit(x, labels), OnlineClassifier)
assert_type(OnlineClassifier().get_params(), dict[str, Any])
Classifier(model="mlp", seed=3).learn_one({"a": 1.0}, "cat")


# ---- saving, following ---------------------------------------------------------------------------

saved: Path = learner.save("folder")
again: Learner = Learner.load(saved, model=net, device="cpu")
again = Learner.from_state(state, net)


def batches() -> Iterator[tuple[Tensor, list[str]] | None]:
    yield torch.zeros(2, 64), ["cat", "dog"]
    yield None


metrics: dict[str, Any] = follow(
    learner, batches(), Path("folder"), checkpoint_every=100, refused="skip"
)
try:
    follow(learner, [(x, labels)], "folder", on_step=lambda step, tally: print(step.loss, tally))
except EvenstreamError as error:
    print(error)


# ---- streams and networks ------------------------------------------------------------------------

stream: streams.Stream = streams.open_stream("c-digits:tasks=5", seed=1, class_order="seed")
for task in range(len(stream)):
    for batch in stream.batches(task, 32):
        learner.learn(batch.x, batch.labels)
scenarios: list[streams.Scenario] = [
    streams.Blurry(),
    streams.ClassIncremental(tasks=5),
    streams.LongTailed(),
]
features: nn.Module = networks.build("convnet", (3, 32, 32))
Learner("er-las", networks.ResNet((3, 32, 32), width=20))


# ---- parts of one's own --------------------------------------------------------------------------


@register("my-method")
@dataclass
class MyMethod(Method):
    """Weighs the replayed rows."""

    citation = "me"
    weight: float = 0.5
    """Of the replayed rows."""

    @property
    def needs(self) -> frozenset[methods.Need]:
        return frozenset({"memory"})

    def make_retrieval(self) -> retrieval.Retrieval:
        return Newest()

    def training_rows(self, step: Step) -> Sequence[methods.Rows]:
        return [step.incoming, step.retrieve(16)]

    def loss(self, step: Step) -> Tensor | None:
        incoming, replayed = step.groups
        if not len(replayed):
            return step.ce(step.net(incoming.x), incoming.y)
        logits = step.net(torch.cat([incoming.x, replayed.x]))
        step.remember(logits=logits[: len(incoming)])
        losses = step.ce(logits, torch.cat([incoming.y, replayed.y]), "none")
        return losses[: len(incoming)].mean() + self.weight * losses[len(incoming) :].mean()

    def on_task_end(self, learner: LearnerState, data: methods.TaskData | None) -> None:
        self.tensors["tasks"] = torch.tensor(learner.task)


@register("my-er")
@dataclass
class MyER(methods.ER):
    """One more option."""

    again: int = 2

    def after_step(self, step: Step) -> None:
        print(step.lr, self.again, self.reduction)


class Newest(retrieval.Retrieval):
    def pick(self, step: Step, count: int) -> retrieval.Rows:
        size = len(step.memory)
        return step.fetch(torch.arange(max(size - count, 0), size))


class Never(storing.Storing):
    def place(self, step: Step, rows: storing.Rows) -> storing.Placement:
        return storing.Placement(rows.y[:0], rows.y[:0])


@register_rule("my-rule")
@dataclass
class MyRule(rules.InferenceRule):
    temperature: float = 1.0

    def prepare(self, context: rules.InferenceContext) -> int:
        return len(context.memory)

    def scores(self, outputs: rules.Outputs, prepared: Any) -> Tensor:
        return outputs.logits / self.temperature


@register_head("my-head")
@dataclass(frozen=True)
class MyHead(heads.Head):
    slope: float = 1.0

    def build(self, in_features: int, seed: int, size: int) -> heads.GrowingHead:
        return heads.GrowingHead(in_features, seed, size)


class Flat(priors.PriorEstimator):
    classes = 0

    def observe(self, labels: Tensor, n_classes: int) -> None:
        self.classes = n_classes

    def weights(self) -> Tensor:
        return torch.ones(self.classes)

    def state(self) -> dict[str, Any]:
        return {"classes": self.classes}

    def load_state(self, state: dict[str, Any]) -> None:
        self.classes = state["classes"]


@register_network("my-net", min_side=8)
class MyNet(nn.Sequential):
    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__(nn.Flatten(), nn.Linear(input_shape[0], 32))


@register_network("my-made-net")
def my_net(input_shape: tuple[int, ...]) -> nn.Module:
    return MyNet(input_shape)


@register_scenario("my")
@dataclass(frozen=True, kw_only=True)
class Backwards(streams.ClassIncremental):
    every: int = 1

    def arrange(self, dataset: Dataset, seed: int) -> streams.Layout:
        layout = super().arrange(dataset, seed)
        return replace(layout, tasks=layout.tasks[:: -self.every])


@register_dataset("my-data", licence="CC0")
def my_data() -> Dataset:
    return from_arrays(x, np.arange(8), x, np.arange(8), name="my-data")


@register_metric("my-metric", better="higher", unit="%")
def worst_task(matrix: NDArray[np.float64]) -> float | None:
    return float(np.nanmin(matrix[-1]))


@register_source("mine", images=True)
def my_source(address: str) -> Iterator[tuple[Tensor, list[str]] | None]:
    return batches()


assert_type(Backwards(tasks=5, every=2).every, int)
assert_type(my_data(), Dataset)
mine = Learner(
    MyMethod(weight=0.3),
    net,
    criterion=LogitAdjustedSoftmax(prior=Flat()),
    head=MyHead(slope=2),
    predict=MyRule(temperature=2.0),
    retrieval=Newest(),
    storing=Never(),
)
assert_type(MyER(again=3, forwards="separate").again, int)
Learner.load("folder", method=MyMethod(), storing=Never())


# ---- the loss alone ------------------------------------------------------------------------------

criterion: CrossEntropy = LogitAdjustedSoftmax(tau=1.0, window=10, reduction="sum")
loss: Tensor = criterion(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))

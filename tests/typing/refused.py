"""User code with mistakes: type checkers must refuse each marked line, and no other."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import evenstream
from evenstream import (
    Learner,
    LogitAdjustedSoftmax,
    Method,
    Step,
    follow,
    heads,
    methods,
    networks,
    priors,
    register,
    register_dataset,
    register_metric,
    register_network,
    register_scenario,
    register_source,
    retrieval,
    rules,
    storing,
    streams,
)
from evenstream.river import Classifier
from evenstream.sklearn import OnlineClassifier

net = nn.Linear(4, 4)

# Misspelt options.
methods.MIR(subsampel=64)  # error
methods.ER(weight=1.0)  # error
LogitAdjustedSoftmax(tua=2)  # error
heads.Cosine(scael=10)  # error
rules.MovingAverage(deacy=0.9)  # error
priors.ExponentialWindow(decya=0.9)  # error
streams.ClassIncremental(taks=5)  # error
Learner("er-las", memroy=100)  # error
Learner("er-las", "mlp", optimiser="sgd")  # error
streams.open_stream("c-digits", sed=1)  # error

OnlineClassifier(methd="er")  # error
OnlineClassifier(method="er", epohcs=2)  # error
Classifier(methd="er")  # error

# Options of another type.
OnlineClassifier(memory="1000")  # error
methods.MIR(subsample="64")  # error
methods.MIR(scoring="training")  # error
methods.ER(reduction="total")  # error
LogitAdjustedSoftmax(tau="2")  # error
LogitAdjustedSoftmax(window=2.5)  # error
LogitAdjustedSoftmax(prior=retrieval.Uniform())  # error
heads.Cosine(scale="10")  # error
Learner(methods.MIR)  # error
Learner(3)  # error
Learner("er", model=64)  # error
Learner("er", memory="1000")  # error
Learner("er", dtype="float16")  # error
Learner("er", scope="some")  # error
Learner("er", criterion="las")  # error
Learner("er", criterion=nn.CrossEntropyLoss())  # error
Learner("er", head=rules.ArgMax())  # error
Learner("er", predict=heads.Linear())  # error
Learner("er", retrieval=storing.Reservoir())  # error
Learner("er", storing=retrieval.Uniform())  # error
Learner("er", optimizer=torch.optim.SGD(net.parameters()))  # error
Learner("er", augment=net.weight)  # error
streams.open_stream("c-digits", class_order="alphabetical")  # error
Learner.load("folder", optimizr=torch.optim.SGD)  # error
Learner.load("folder", storing=retrieval.Uniform())  # error

# Names that there are not.
evenstream.Lerner()  # error
methods.Mir()  # error
rules.MovingMean()  # error
heads.Angular()  # error
networks.Resnet((3, 32, 32))  # error
learner = Learner()
learner.fit(torch.zeros(2, 4), [0, 1])  # error
learner.predict(torch.zeros(2, 4)).scores  # error
learner.learn(torch.zeros(2, 4), [0, 1]).lost  # error
methods.MIR().subsampel  # error
rules.MovingAverage().deacy  # error

# Calls that are not whole, and results of another type.
learner.ask(torch.zeros(2, 4), rejct=0.1)  # error
learner.ask(torch.zeros(2, 4), reject="0.1")  # error
Learner(table=[])  # error
learner.learn(torch.zeros(2, 4))  # error
follow(learner, [(torch.zeros(2, 4), [0, 1])])  # error
follow(learner, [torch.zeros(2, 4)], "folder", refused="ignore")  # error
follow("er-las", [(torch.zeros(2, 4), [0, 1])], "folder")  # error
learner.lr = "fast"  # error
step: str = learner.learn(torch.zeros(2, 4), [0, 1]).step  # error
best: int = learner.predict(torch.zeros(2, 4))  # error
path: str = learner.save("folder")  # error


@register("mine")
@dataclass
class Mine(Method):
    weight: float = 0.5

    def loss(self, step: Step) -> float:  # error
        return 0.0

    def make_retrieval(self) -> retrieval.Retrieval:
        return storing.Reservoir()  # error

    def training_rows(self, step: Step) -> Sequence[methods.Rows]:
        return step.incoming.labels  # error

    def after_step(self, step: Step) -> None:
        step.forget()  # error


Mine(wieght=1.0)  # error
Mine(weight="1")  # error


class Newest(retrieval.Retrieval):
    def pick(self, step: Step, count: int) -> Tensor:  # error
        return torch.arange(count)


@register(3)  # error
@dataclass
class Numbered(Method):
    pass


register("no-method")(nn.Linear)  # error
register_network("net", min_side="8")  # error
register_network("net")(len)  # error
register_scenario("s")(nn.Linear)  # error
register_dataset("data", license="CC0")  # error
register_dataset("data")(nn.Linear)  # error
register_metric("metric", better="up")  # error
register_metric("metric")(nn.Linear)  # error
register_source("scheme", image=True)  # error
register_source("scheme")(nn.Linear)  # error

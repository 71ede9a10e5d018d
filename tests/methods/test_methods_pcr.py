"""PCR: a proxy loss that is Logit Adjusted Softmax on a cosine head."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream import LogitAdjustedSoftmax
from evenstream.composition import compose
from evenstream.core.heads import cosines
from evenstream.errors import InputError
from evenstream.testing import Backbone, feed, make_learner, toy_stream
from tests.helpers.contrast_samples import seeds
from tests.helpers.method_samples import watch_groups
from tests.helpers.small_streams import parameters


def proxy_loss(features, proxies, labels, temperature):
    """PCR's: each row against the proxies of all rows of the batch, itself included."""
    similarities = F.normalize(features, dim=1) @ F.normalize(proxies, dim=1)[labels].T
    own = similarities.diagonal() / temperature
    return (torch.logsumexp(similarities / temperature, 1) - own).mean()


@settings(max_examples=30)
@given(seeds, st.integers(1, 20), st.integers(1, 6))
def test_pcr_is_las_on_a_cosine_head(seed, n, classes):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=draw)
    inputs = [torch.randn(k, 4, generator=draw, dtype=torch.float64) for k in (n, classes)]
    features, proxies = (x.clone().requires_grad_() for x in inputs)
    theirs = proxy_loss(features, proxies, labels, 0.09)
    theirs.backward()
    mine = [x.clone().requires_grad_() for x in inputs]
    las = LogitAdjustedSoftmax(tau=1.0, window=1)(cosines(*mine) / 0.09, labels)
    las.backward()
    counts = torch.bincount(labels)[labels].float()
    torch.testing.assert_close(las + counts.log().mean(), theirs, rtol=0, atol=2e-6)
    for one, other in zip(mine, (features, proxies), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=2e-7)


@pytest.mark.parametrize("forwards", ["joint", "separate"])
def test_pcr_in_a_learner_is_the_proxy_loss(forwards):
    spec = f"pcr:forwards={forwards}"
    learner = feed(make_learner(spec, model=Backbone(dropout=0.0)), toy_stream(4))
    seen, network = watch_groups(learner), learner.network
    features, forward = [], network.features
    network.features = lambda x: features.append(forward(x)) or features[-1]
    proxies = network.head.weight.detach().clone()
    result = learner.learn(*toy_stream()[4])
    groups = seen[0] if forwards == "joint" else [*seen[0][::2], *seen[0][1::2]]
    labels = torch.cat([rows.y for rows in groups])
    assert [len(each) for each in features] == ([24] if forwards == "joint" else [12, 12])
    expected = proxy_loss(torch.cat(features).detach(), proxies, labels, 0.09)
    counts = torch.bincount(labels)[labels].float()
    assert result.loss + float(counts.log().mean()) == pytest.approx(float(expected), abs=1e-4)
    assert len(labels) == 24  # both views are counted


def test_pcr_is_er_las_when_both_views_are_the_same():
    stream = toy_stream()
    pcr = feed(make_learner("pcr:skip_first=false", model=Backbone(dropout=0.0)), stream)
    er = make_learner(f"er-las:head=cosine,head_scale={1 / 0.09}", model=Backbone(dropout=0.0))
    feed(er, stream)
    assert pcr.criterion.tau == 1.0 and pcr.network.head.scale == er.network.head.scale  # type: ignore[attr-defined]
    for name, value in parameters(er).items():
        if "running" not in name:  # BatchNorm's variance is of twice as many rows
            torch.testing.assert_close(parameters(pcr)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("norm", [False, True])
def test_separate_forwards_differ_by_batchnorm_alone(norm):
    found = []
    for forwards in ("joint", "separate"):
        model = Backbone(dropout=0.0)
        if not norm:
            model.layers[1] = nn.Identity()
        learner = feed(make_learner(f"pcr:forwards={forwards}", model=model), toy_stream(6))
        found.append(learner.network.head.weight.detach())
    assert torch.allclose(*found, rtol=0, atol=1e-5) != norm


def test_pcr_has_its_name_and_no_second_adjustment():
    assert compose("pcr").text == "pcr"
    composition = compose("pcr:temperature=0.1,head_scale_learned=true")
    assert composition.text == "pcr:temperature=0.1,head_scale_learned=true"
    assert composition.head.scale == pytest.approx(10)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="already"):
        compose("pcr-las")


def test_pcr_takes_priors():
    learner = feed(make_learner("pcr"), toy_stream())
    only = dict.fromkeys(learner.labels, 0) | {"bolt": 1.0}
    assert learner.predict(toy_stream()[0][0], priors=only).tolist() == ["bolt"] * 6

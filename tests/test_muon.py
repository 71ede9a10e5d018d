"""Orthogonalised momentum, against plain loops and PyTorch's AdamW."""

import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.core.muon import MOMENTUM, OTHERS, QUINTIC, ROUNDS, Muon, orthogonal
from evenstream.errors import InputError
from evenstream.testing import feed
from tests.helpers.small_streams import class_stream

SHAPES = [(2, 3), (8, 72), (72, 8), (5, 5), (1, 9), (6, 1)]


def one_by_one(matrix):
    """The iteration as it is written, in double precision."""
    x = matrix.double() / matrix.double().norm()
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        x = u @ torch.diag(a * s + b * s**3 + c * s**5) @ v
    return x


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one_and_directions_stay(shape):
    matrices = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    found = orthogonal(matrices)
    for matrix, turned in zip(matrices, found, strict=True):
        torch.testing.assert_close(turned.double(), one_by_one(matrix), rtol=0, atol=1e-4)
    before, after = (
        torch.linalg.svdvals(matrices / matrices.norm(dim=(1, 2), keepdim=True)),
        (torch.linalg.svdvals(found)),
    )
    assert after.max() < 1.21 and bool((after[before > 0.1] > 0.6).all())


def test_a_gradient_of_zero_moves_nothing():
    assert not orthogonal(torch.zeros(1, 3, 4)).any()
    weight = nn.Parameter(torch.ones(3, 4))
    optimizer = Muon([weight], [], 0.1)
    weight.grad = torch.zeros(3, 4)
    optimizer.step()
    assert torch.equal(weight, torch.ones(3, 4))


def test_a_convolution_is_a_matrix_and_moves_by_its_rate():
    draw = torch.Generator().manual_seed(1)
    weight = nn.Parameter(torch.randn(4, 2, 3, 3, generator=draw))
    expected, kept = weight.detach().clone(), torch.zeros(4, 18)
    optimizer = Muon([weight], [], 0.1, weight_decay=0.5)
    for _ in range(3):
        weight.grad = torch.randn(4, 2, 3, 3, generator=draw)
        flat = weight.grad.flatten(1)
        kept = MOMENTUM * kept + (1 - MOMENTUM) * flat
        ahead = MOMENTUM * kept + (1 - MOMENTUM) * flat
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * one_by_one(ahead).view_as(expected)
        optimizer.step()
    torch.testing.assert_close(weight.detach().double(), expected.double(), rtol=0, atol=1e-5)


def test_everything_else_is_trained_by_adamw():
    draw = torch.Generator().manual_seed(2)
    mine, theirs = (nn.Parameter(torch.ones(5, 3)) for _ in range(2))
    one = Muon([], [mine], 0.2, weight_decay=0.1)
    other = torch.optim.AdamW([theirs], OTHERS * 0.2, weight_decay=0.1)
    for _ in range(5):
        mine.grad = torch.randn(5, 3, generator=draw)
        theirs.grad = mine.grad.clone()
        one.step(), other.step()
    torch.testing.assert_close(mine, theirs)


def test_matrices_of_the_backbone_are_turned_and_the_rate_is_that_of_theirs():
    learner = Learner("er-las", "mlp-norm", optimizer="muon", lr=0.02, memory=20)
    assert learner.lr == 0.02
    feed(learner, class_stream(4))
    matrices, others = learner.optimizer.param_groups
    backbone = [p for p in learner.network.backbone.parameters() if p.ndim > 1]
    assert [id(p) for p in matrices["params"]] == [id(p) for p in backbone]
    assert learner.network.head.weight is others["params"][-2]
    learner.lr = 0.1
    assert (matrices["lr"], others["lr"], learner.lr) == (0.1, OTHERS * 0.1, 0.1)


def test_complex_weights_are_refused():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = nn.Parameter(torch.ones(4, dtype=torch.complex64))

        def forward(self, x):
            return (x * self.turn).real

    learner = Learner("er", Turned(), optimizer="muon")
    with pytest.raises(InputError, match="complex"):
        learner.learn(torch.rand(2, 4), [0, 1])
    assert learner.step == 0

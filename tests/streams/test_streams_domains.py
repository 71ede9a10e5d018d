"""Streams with domains: Sum-Class-Domain, Mix-Class-Domain and domain-incremental ones."""

from dataclasses import replace

import numpy as np
import pytest

from evenstream.data import CoarseLabels
from evenstream.errors import InputError
from evenstream.streams import Protocol, Stream, coupling
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.domain_incremental import DomainIncremental
from evenstream.streams.mix_class_domain import MixClassDomain
from evenstream.streams.sum_class_domain import SumClassDomain
from tests.helpers.stream_samples import (
    SUPERCLASS_OF,
    cifar100,
    counts,
    numbered,
    numbered_images,
    task_tests,
    train_sizes,
    used_once,
)  # fmt: skip


def table(stream):
    """Training samples by task, class and domain, counted one by one."""
    found = np.zeros((len(stream), stream.dataset.n_classes, len(stream.domains.names)), dtype=int)
    for number, task in enumerate(stream.tasks):
        for row in task.train.tolist():
            found[number, stream.dataset.y_train[row], stream.domains.train[row]] += 1
    return found


def test_the_counts_of_s_cifar100():
    fine = cifar100()
    stream = SumClassDomain().stream(fine)
    assert train_sizes(stream) == [2500] * 20
    assert [stream.steps(task, 32) for task in range(20)] == [79] * 20
    assert used_once(stream)
    assert stream.dataset.classes == list(range(20))
    for number, task in enumerate(stream.tasks):
        group = range(5 * number, 5 * number + 5)
        assert set(fine.y_train[task.train]) == set(fine.y_test[task.test]) == set(group)
        assert set(task.classes) == {SUPERCLASS_OF[index] for index in group}
        assert len(task.test) == 500
        assert set(task_tests(stream, number)[1]) == set(task.classes)
    by_cell = table(stream)
    assert (by_cell.sum(axis=0) == 500).all()  # each superclass in its five domains, in all
    distinct = (by_cell.sum(axis=2) > 0).sum(axis=1).tolist()
    assert distinct == [5, 4, 5, 4, 5, 4, 5, 5, 4, 5, 4, 4, 4, 5, 5, 4, 5, 3, 5, 5]


def test_labels_and_domains_are_those_of_the_subclass():
    fine = cifar100(4, 2)
    stream = SumClassDomain().stream(fine)
    rank = [SUPERCLASS_OF[:index].count(SUPERCLASS_OF[index]) for index in range(100)]
    for y, part, domains in (
        (fine.y_train, stream.dataset.y_train, stream.domains.train),
        (fine.y_test, stream.dataset.y_test, stream.domains.test),
    ):
        assert part.tolist() == [SUPERCLASS_OF[index] for index in y]
        assert domains.tolist() == [rank[index] for index in y]
    assert stream.domains.names == [f"subclass {number}" for number in range(1, 6)]
    assert stream.dataset.label_names[3] == "super 3"
    assert stream.dataset.coarse is None


def test_subclasses_by_seed():
    fine = cifar100(4, 2)
    streams = [SumClassDomain(class_order="seed").stream(fine, seed) for seed in (1, 1, 2)]
    groups = [[set(fine.y_train[task.train]) for task in stream.tasks] for stream in streams]
    assert groups[0] == groups[1] != groups[2]
    assert all(len(group) == 5 for group in groups[2])
    assert all(used_once(stream) for stream in streams)


def test_the_sum_stream_is_not_coupled():
    assert coupling(SumClassDomain().stream(cifar100(20))) == 0
    assert coupling(DomainIncremental().stream(cifar100(20))) == 0
    assert coupling(ClassIncremental().stream(cifar100(20))) is None


def test_the_counts_of_m_cifar100():
    fine = cifar100()
    stream, whole = MixClassDomain().stream(fine), SumClassDomain().stream(fine)
    by_cell = table(stream).sum(axis=0)
    for label in range(20):
        assert by_cell[label].tolist() == [500 if z == label % 5 else 100 for z in range(5)]
    for part, task in zip(stream.tasks, whole.tasks, strict=True):
        assert set(part.train) < set(task.train)  # strictly: thinned, and nothing twice
        assert len(part.train) == len(set(part.train))
        assert np.array_equal(part.test, task.test)
        assert part.classes == task.classes
    # I(Z;Y) = log 5 - H(5/9, 1/9, 1/9, 1/9, 1/9), and H(Z) = log 5
    entropy = -(5 / 9 * np.log(5 / 9) + 4 / 9 * np.log(1 / 9))
    assert coupling(stream) == pytest.approx(1 - entropy / np.log(5))
    assert coupling(stream) == pytest.approx(0.19035, abs=1e-5)


def test_coupling_goes_from_none_to_full():
    fine = cifar100(20)
    found = [coupling(MixClassDomain(coupling=c).stream(fine)) for c in (0, 0.25, 0.5, 0.9, 1)]
    assert found[0] == 0
    assert found[-1] == pytest.approx(1)
    assert found == sorted(found)
    assert used_once(MixClassDomain(coupling=0).stream(fine))
    assert len(MixClassDomain(coupling=1).stream(fine).order()) == 20 * 20


def test_which_samples_are_left_out_is_drawn_by_the_seed():
    orders = [set(MixClassDomain().stream(cifar100(20), seed).order()) for seed in (5, 5, 6)]
    assert orders[0] == orders[1] != orders[2]


def test_coupling_against_a_brute_force_sum():
    stream = MixClassDomain(coupling=0.7, tasks=4).stream(
        numbered([9, 7, 3, 5, 8, 2], superclasses=[0, 1, 0, 1, 0, 1])
    )
    joint = table(stream).sum(axis=0) / len(stream.order())
    y, z = joint.sum(axis=1), joint.sum(axis=0)
    information = sum(
        joint[i, j] * np.log(joint[i, j] / (y[i] * z[j]))
        for i in range(2) for j in range(3) if joint[i, j]
    )  # fmt: skip
    smaller = min(-(y * np.log(y)).sum(), -(z * np.log(z)).sum())
    assert 0 < coupling(stream) == pytest.approx(information / smaller)


def test_one_class_or_one_domain_cannot_be_coupled():
    assert coupling(SumClassDomain().stream(numbered([3, 3], superclasses=[0, 0]))) == 0
    assert coupling(SumClassDomain().stream(numbered([3, 3], superclasses=[0, 1]))) == 0


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_impossible_couplings(value):
    with pytest.raises(InputError, match=r"coupling must (lie between 0 and 1|be a number)"):
        MixClassDomain(coupling=value)


@pytest.mark.parametrize("scenario", [SumClassDomain(), DomainIncremental(by="subclass")])
def test_superclasses_are_needed(scenario):
    with pytest.raises(InputError, match="numbered has no superclasses"):
        scenario.stream(numbered([3] * 4))


def test_a_class_in_two_superclasses():
    dataset = numbered([3, 3])
    coarse = CoarseLabels(np.arange(6) % 2, np.arange(6) % 2, ["even", "odd"])
    with pytest.raises(InputError, match=r"class [01] belongs to more than one superclass"):
        SumClassDomain().stream(replace(dataset, coarse=coarse))


def test_the_counts_of_d_cifar100():
    stream = DomainIncremental().stream(cifar100())
    assert train_sizes(stream) == [10_000] * 5
    assert used_once(stream)
    for number, task in enumerate(stream.tasks):
        assert counts(stream, number).tolist() == [500] * 20
        assert np.bincount(stream.dataset.y_test[task.test]).tolist() == [100] * 20
        assert set(stream.domains.train[task.train]) == {number}
        assert set(stream.domains.test[task.test]) == {number}
        assert task.classes == tuple(range(20))


def test_rotated_images():
    dataset = numbered_images([9, 8, 4])
    stream = DomainIncremental().stream(dataset, 2)
    assert stream.domains.names == ["0°", "90°", "180°", "270°"]
    assert used_once(stream)
    table = np.array([counts(stream, task) for task in range(4)])
    assert table.tolist() == [[3, 2, 1], [2, 2, 1], [2, 2, 1], [2, 2, 1]]
    for quarter, task in enumerate(stream.tasks):
        for row in task.train:
            turned = np.rot90(dataset.x_train[row, 0], quarter)
            assert np.array_equal(stream.dataset.x_train[row, 0], turned)
        x, labels = task_tests(stream, quarter)
        assert np.array_equal(x, np.rot90(dataset.x_test, quarter, axes=(2, 3)))
        assert labels == dataset.y_test.tolist()
        assert task.classes == (0, 1, 2)
    other = DomainIncremental().stream(dataset, 3)
    assert any(
        not np.array_equal(a.train, b.train) for a, b in zip(stream.tasks, other.tasks, strict=True)
    )


def test_rotation_of_a_set_with_superclasses():
    dataset = numbered_images([4, 4])
    coarse = CoarseLabels(np.repeat([0, 1], 4), np.repeat([0, 1], 4), ["a", "b"])
    dataset = replace(dataset, coarse=coarse)
    assert len(DomainIncremental(by="rotation").stream(dataset)) == 4
    assert len(DomainIncremental().stream(dataset)) == 1


def test_what_cannot_be_turned():
    with pytest.raises(InputError, match=r"square images, not shape \(1,\)"):
        DomainIncremental().stream(numbered([2, 2]))
    images = numbered_images([2, 2])
    oblong = replace(images, x_train=images.x_train[:, :, :2], x_test=images.x_test[:, :, :2])
    with pytest.raises(InputError, match=r"square images, not shape \(1, 2, 4\)"):
        DomainIncremental().stream(oblong)


def test_domains_survive_shuffling():
    stream = SumClassDomain().stream(cifar100(4, 2))
    joint = stream.shuffled()
    assert isinstance(joint, Stream)
    assert joint.domains is stream.domains
    assert joint.protocol == Protocol()
    assert sorted(joint.order()) == sorted(stream.order())

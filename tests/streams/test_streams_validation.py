"""The option `validation`, which every scenario has: training samples in place of the test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.data.image_files import ImageFiles
from evenstream.errors import InputError
from evenstream.run.sameness import canonical
from evenstream.streams import SCENARIOS, open_stream
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.domain_incremental import DomainIncremental
from evenstream.streams.scenario import Scenario
from evenstream.streams.validation import with_validation
from tests.helpers.small_runs import small_config
from tests.helpers.stream_samples import cifar100, numbered, numbered_images, task_tests


@settings(max_examples=40)
@given(st.integers(1, 99), st.lists(st.integers(2, 40), min_size=2, max_size=6), st.integers(0, 3))
def test_each_class_gives_its_share_and_keeps_at_least_one(percentage, counts, seed):
    data = numbered(counts, test_counts=[1] * len(counts))
    part = with_validation(data, percentage, seed)
    given_up = np.bincount(part.y_test, minlength=len(counts))
    wanted = [min(max(1, round(n * percentage / 100)), n - 1) for n in counts]
    assert given_up.tolist() == wanted
    # every training sample is on one side, with its label, and no test sample is left
    truth = dict(zip(data.x_train[:, 0].tolist(), data.y_train.tolist(), strict=True))
    sides = [(part.x_train, part.y_train), (part.x_test, part.y_test)]
    found = [dict(zip(x[:, 0].tolist(), y.tolist(), strict=True)) for x, y in sides]
    assert found[0] | found[1] == truth and not found[0].keys() & found[1].keys()


def test_the_seed_draws_it():
    parts = [with_validation(numbered([50] * 3), 20, seed) for seed in (1, 1, 2)]
    assert np.array_equal(parts[0].x_test, parts[1].x_test)
    assert not np.array_equal(parts[0].x_test, parts[2].x_test)


def example(prefix: str, **options: int) -> tuple[Scenario, object]:
    data = numbered_images([40] * 4) if prefix == "d" else cifar100(50, 10)
    scenario = {"d": lambda **o: DomainIncremental(by="rotation", **o)}.get(
        prefix, SCENARIOS[prefix]
    )
    return scenario(**({"minor": 2} if prefix == "b" else {}), **options), data


@pytest.mark.parametrize("prefix", SCENARIOS)
def test_every_scenario_tests_on_what_never_arrives(prefix):
    scenario, data = example(prefix, validation=20)
    stream = scenario.stream(data, 3)
    plain = example(prefix)[0].stream(data, 3)
    assert len(stream) == len(plain)
    assert [task.classes for task in stream.tasks] == [task.classes for task in plain.tasks]
    share = len(stream.dataset.y_test) / (len(data.y_train) * (4 if prefix == "d" else 1))  # type: ignore[attr-defined]
    assert share == pytest.approx(0.2)
    if prefix != "d":  # turned images cannot be followed
        arrived = stream.dataset.x_train[stream.order()]
        tested = np.concatenate([task_tests(stream, task)[0] for task in range(len(stream))])
        assert not np.intersect1d(arrived, tested).size
        assert np.isin(tested, data.x_train).all()  # type: ignore[attr-defined]


def test_superclasses_go_with_their_samples():
    part = with_validation(cifar100(20, 5), 10, 0)
    above = dict(
        zip(cifar100(20).y_train.tolist(), cifar100(20).coarse.train.tolist(), strict=True)
    )
    assert [above[y] for y in part.y_test.tolist()] == part.coarse.test.tolist()
    assert [above[y] for y in part.y_train.tolist()] == part.coarse.train.tolist()


def test_files_are_chosen_not_decoded(tmp_path):
    data = numbered([4, 4])
    names = [f"{number}.png" for number in range(8)]
    object.__setattr__(data, "x_train", ImageFiles(tmp_path, names, 8))
    part = with_validation(data, 25, 0)
    paths = [x.path(row).name for x in (part.x_train, part.x_test) for row in range(len(x))]
    assert sorted(paths) == names and len(part.x_test) == 2


def test_the_share_that_arrives_is_of_what_is_left():
    stream = ClassIncremental(tasks=2, validation=50, fraction=0.5).stream(numbered([40] * 4))
    assert (len(stream.order()), len(stream.dataset.y_test)) == (40, 80)


def test_what_cannot_be_held_out_is_refused():
    with pytest.raises(InputError, match="percentage of 0 to 99"):
        open_stream("c-digits:validation=100")
    with pytest.raises(InputError, match="no class has two"):
        with_validation(numbered([1, 1]), 10, 0)


def test_a_run_is_named_after_it_and_none_is_as_before():
    plain, held_out = (small_config(name, "er") for name in ("c-digits", "c-digits:validation=10"))
    assert canonical(held_out).stream.startswith("c-digits:validation=10")
    assert canonical(small_config("c-digits:validation=0", "er")) == canonical(plain)

"""What SCR, PCR and OCM share: two views of every row, and an exact resume on images."""

import pytest
import torch

from evenstream import Learner
from evenstream.testing import Backbone, make_learner, toy_stream
from tests.helpers.contrast_samples import colour_stream, image_learner
from tests.helpers.method_samples import watch_groups
from tests.helpers.small_streams import feed as learn_all
from tests.helpers.small_streams import parameters, same


@pytest.mark.parametrize("method", ["scr", "pcr"])
@pytest.mark.parametrize("augment", ["none", "crop1+flip"])
def test_rows_are_seen_as_they_are_and_augmented(method, augment):
    learner = image_learner(method, augment=augment, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    seen = watch_groups(learner)
    learn_all(learner, colour_stream())
    incoming, replayed, *augmented = seen[-1]
    for rows, other in zip((incoming, replayed), augmented, strict=True):
        assert torch.equal(rows.x, learner.preprocess.plain(rows.raw))
        assert torch.equal(rows.raw, other.raw) and torch.equal(rows.y, other.y)
        assert other.x.shape == rows.x.shape and not torch.equal(rows.x, other.x)
    own = learner.method.augmented
    assert own.augment == "resized-crop0.2+flip+jitter+gray"
    assert (own.mean, own.std) == (learner.preprocess.mean, learner.preprocess.std)


def test_the_second_view_of_the_stream():
    learner = image_learner("scr:view=stream", augment="flip")
    seen = watch_groups(learner)
    learn_all(learner, colour_stream())
    assert learner.method.augmented is learner.preprocess
    raw, view = seen[-1][2].raw, seen[-1][2].x
    either = torch.stack([learner.preprocess.plain(raw), learner.preprocess.plain(raw).flip(3)])
    assert (view == either).flatten(2).all(2).any(0).all()


def test_the_second_view_has_the_size_of_the_learners():
    learner = learn_all(image_learner("scr", augment="resized-crop0.5@8"), colour_stream(side=10))
    assert learner.method.augmented.augment == "resized-crop0.2@8+flip+jitter+gray"  # type: ignore[attr-defined]
    assert learner.memory.field("x").shape[2:] == (10, 10)


@pytest.mark.parametrize("method", ["scr", "pcr", "ocm"])
def test_images_of_one_channel(method):
    learner = learn_all(image_learner(method), colour_stream(channels=1))
    assert len(learner.predict(colour_stream(channels=1)[0][0])) == 4


@pytest.mark.parametrize("method", ["scr", "pcr"])
def test_no_update_while_the_memory_is_empty(method):
    learner, stream = make_learner(method), toy_stream()
    learner.learn(*stream[0])
    fresh = {f"backbone.{name}": value for name, value in Backbone().state_dict().items()}
    assert same(fresh, {name: v for name, v in parameters(learner).items() if name in fresh})
    assert len(learner.memory) == len(stream[0][1])
    assert learner.learn(*stream[1]).loss is not None


@pytest.mark.parametrize("method", ["scr", "scr:review=true", "ocm", "pcr"])
def test_resumes_exactly_on_images(method, tmp_path):
    def run(learner, batches):
        for number, (x, labels) in batches:
            if learner.in_task and number == 3:
                learner.end_task()
                learner.start_task()
            learner.learn(x, labels)
        return learner

    numbered = list(enumerate(colour_stream()))
    whole = run(image_learner(method), numbered)
    for cut in (1, 4):
        run(image_learner(method), numbered[:cut]).save(tmp_path / str(cut))
        again = run(Learner.load(tmp_path / str(cut)), numbered[cut:])
        assert again.fingerprint() == whole.fingerprint()

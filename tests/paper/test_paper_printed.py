"""The numbers in printed/ against some that were typed by hand, and against each other."""

import pytest

from evenstream.composition import compose
from evenstream.errors import UnknownName
from evenstream.paper import experiments, printed, printed_beside
from evenstream.paper.contents import printed_lines

# Read in the paper with one's own eyes: name, stream, memory, method, metric, mean, std.
SAMPLE = """
class-incremental c-cifar10 500 er A_T 40.9 1.2
class-incremental c-cifar10 1000 der++ A_T 49.7 3.0
class-incremental c-cifar100 500 mro A_T 11.5 0.1
class-incremental c-tinyimagenet 2000 ss-il A_T 17.1 0.9
class-incremental c-cifar10 2000 clib A_T 55.9 1.0
class-incremental c-tinyimagenet 500 er-ace A_T 11.4 0.2
class-incremental c-cifar100 2000 er-obc A_T 22.1 0.3
class-incremental c-cifar100 500 er-cba A_T 20.1 0.6
class-incremental c-cifar10 2000 er-las A_T 60.5 0.8
class-incremental c-tinyimagenet 2000 er-las A_T 18.7 0.2
class-incremental-forgetting c-cifar10 500 er F_T 43.0 1.5
class-incremental-forgetting c-tinyimagenet 500 mro F_T 11.1 0.1
class-incremental-forgetting c-cifar100 2000 er-ace F_T 5.6 0.7
class-incremental-forgetting c-cifar10 2000 er-obc F_T 30.5 0.8
class-incremental-forgetting c-cifar100 2000 er-las F_T 9.3 0.7
class-incremental-forgetting c-cifar100 2000 er F_T 23.2 0.6
long-sequences c-imagenet 20000 er A_T 31.8 0.1
long-sequences c-imagenet 20000 er F_T 38.6 0.2
long-sequences c-inaturalist 20000 mro F_T 0.4 0.0
long-sequences c-inaturalist 20000 er-las A_T 8.1 0.0
blurry b-cifar100 2000 er A_T 19.6 1.6
blurry b-cifar100 2000 clib A_AUC 18.0 0.1
blurry b-tinyimagenet 2000 er-las A_AUC 15.1 0.0
replay-gains c-cifar100 500 mir-las A_T 21.1 0.2
replay-gains c-cifar100 500 mir-las A_T_gain 9.1 -
replay-gains c-cifar100 100 aser A_T 7.8 0.2
replay-gains c-cifar100 100 ocs-las A_T 12.7 0.2
distillation-gains s-cifar100 100 lwf A_T 23.9 0.3
distillation-gains s-cifar100 100 lucir-las A_T_gain 4.9 -
distillation-gains s-cifar100 500 geodl-las A_T 32.8 0.2
ablation c-cifar100 2000 er-las:tau=inf F_T 2.7 0.4
ablation c-cifar100 2000 er-las:prior=random A_T 20.6 0.2
ablation c-cifar100 2000 er-las:prior=macro F_T 14.2 0.8
ablation c-cifar100 2000 er-las:tau=0 F_T 29.1 0.4
ablation c-cifar100 2000 er-las F_T 10.7 0.4
training-time c-cifar100 2000 er train_seconds 77.4 -
training-time c-cifar100 2000 mro train_seconds_ratio 1.20 -
mnist c-mnist 500 der++ A_T 92.3 0.1
mnist c-mnist 2000 er-obc A_T 91.6 0.4
rehearsal-free c-mnist 0 labels-trick A_T 45.7 3.5
rehearsal-free c-mnist 0 las A_T 48.4 1.2
imbalance-mitigation c-cifar100 1000 er-up A_T 23.4 0.5
imbalance-mitigation c-tinyimagenet 1000 er-down A_T 13.4 0.2
offline c-cifar10 100 bic A_T 23.4 0.8
offline c-tinyimagenet 100 lucir-full A_T 10.2 0.1
offline c-cifar100 100 lwf-las A_T 22.6 0.1
inaturalist-balanced c-inaturalist 20000 mro A_T 4.96 0.0
inaturalist-balanced c-inaturalist 20000 er-las A_T_cbl 8.62 0.01
contrastive c-cifar10 1000 ocm train_seconds_ratio 30 -
contrastive c-cifar10 1000 scr train_seconds_ratio 2 -
prediction-share c-cifar100 - er prediction_share_last 38 -
prediction-share c-cifar100 - fine-tune prediction_share_last 100 -
sensitivity c-cifar100 2000 er-las best_tau 1.0 -
"""
OTHER_KEYS = """
batch-sizes batch 64 er-obc 39.0 1.8
batch-sizes batch 4 er-las 59.2 1.2
batch-sizes batch 16 er-ace 56.7 2.1
batch-schedules batch_schedule decrease er 65.2 1.9
batch-schedules batch_schedule random er-obc 51.4 1.7
batch-schedules batch_schedule increase er-las 59.8 1.1
single-samples replay_batch 1 er 39.3 2.0
single-samples replay_batch 16 er-las 67.2 1.5
single-samples replay_batch 64 er-ace 54.5 1.7
"""
SIZES = {
    "class-incremental": 9 * 9,
    "class-incremental-forgetting": 8 * 9,
    "long-sequences": 4 * 2 * 2,
    "blurry": 4 * 2 * 2,
    "replay-gains": 8 * 2 + 4 * 2,
    "distillation-gains": 8 * 2 + 4 * 2,
    "ablation": 5 * 2,
    "training-time": 4 * 2,
    "mnist": 9 * 3,
    "rehearsal-free": 5,
    "batch-sizes": 4 * 4,
    "batch-schedules": 4 * 3,
    "single-samples": 4 * 4,
    "imbalance-mitigation": 6 * 3,
    "offline": 9 * 3,
    "inaturalist-balanced": 4 * 2,
    "prediction-share": 2,
    "sensitivity": 1,
    "contrastive": 2,
    "task-accuracy": 0,
    "domain-incremental": 0,
    "augmentation": 0,
}


def test_the_sample_that_was_typed_by_hand():
    lines = [line.split() for line in SAMPLE.split("\n") if line]
    assert len(lines) + len(OTHER_KEYS.split("\n")) > 40
    for name, *wanted in lines:
        columns = ("stream", "memory", "method", "metric", "mean", "std")
        found = [[line[c] or "-" for c in columns] for line in printed_lines(name)]
        assert wanted in found, name


def test_the_sample_of_tables_with_other_keys():
    for name, key, value, method, mean, std in map(str.split, OTHER_KEYS.strip().split("\n")):
        (line,) = [
            line for line in printed_lines(name) if (line[key], line["method"]) == (value, method)
        ]
        assert (line["mean"], line["std"], line["metric"]) == (mean, std, "A_T")
        assert (line["stream"], line["memory"]) == ("c-cifar10", "1000")


def test_the_data_sets():
    found = {line.pop("dataset"): list(line.values()) for line in printed_lines("data-sets")}
    assert found == {
        "cifar10": ["3x32x32", "50000", "10000", "10", "Table 8"],
        "cifar100": ["3x32x32", "50000", "10000", "100", "Table 8"],
        "tinyimagenet": ["3x64x64", "100000", "10000", "200", "Table 8"],
        "imagenet": ["3x224x224", "1281167", "50000", "1000", "Table 8"],
        "inaturalist2017": ["3x299x299", "579184", "95986", "5089", "Table 8"],
    }


def test_every_table_is_complete():
    assert {name: len(printed(name)) for name in experiments()} == SIZES
    for name in SIZES:
        keys = [(tuple(value.keys.items()), value.metric) for value in printed(name)]
        assert len(set(keys)) == len(keys)


def test_every_method_is_known():
    for method in {value.keys["method"] for name in SIZES for value in printed(name)}:
        assert compose(method).text == compose(compose(method).text).text


def test_values_have_their_types():
    value = next(v for v in printed("batch-sizes") if v.keys["method"] == "er-ace")
    assert value.keys == {
        "stream": "c-cifar10", "memory": 1000, "method": "er-ace", "batch": 4
    }  # fmt: skip
    assert (value.mean, value.std, value.decimals, value.source) == (55.1, 1.9, 1, "Table 11")
    assert {v.decimals for v in printed("inaturalist-balanced")} == {2}
    assert "memory" not in printed("prediction-share")[0].keys
    with pytest.raises(UnknownName, match="did you mean ablation"):
        printed("ablations")


@pytest.mark.parametrize("name", ["replay-gains", "distillation-gains"])
def test_the_gains_that_are_printed_are_the_differences(name):
    mean = {(v.keys["method"], v.keys["memory"], v.metric): v.mean for v in printed(name)}
    gains = [(method, memory) for method, memory, metric in mean if metric == "A_T_gain"]
    assert len(gains) == 8
    for method, memory in gains:
        difference = mean[method, memory, "A_T"] - mean[method[:-4], memory, "A_T"]
        assert mean[method, memory, "A_T_gain"] == pytest.approx(difference)


def test_the_ratios_of_training_times_are_right_but_for_the_noted_one():
    found = {(v.keys["method"], v.metric): v.mean for v in printed("training-time")}
    own = found["er-las", "train_seconds"]
    wrong = [
        method
        for method, metric in found
        if metric == "train_seconds"
        and round(found[method, metric] / own, 2) != found[method, "train_seconds_ratio"]
    ]
    assert wrong == ["er-ace"]


def test_where_tables_repeat_each_other_they_agree_but_for_the_noted_cells():
    repeated, different = 0, {}
    for experiment in experiments().values():
        for cell in experiment.cells():
            for metric, values in printed_beside(experiment, cell).items():
                repeated += len(values) > 1
                fewest = min(value.decimals for value in values)
                means = {round(value.mean, fewest) for value in values}
                if len(means) > 1:
                    assert cell["stream"] == "c-cifar100"
                    assert {value.keys["memory"] for value in values} == {2000}
                    different[cell["method"], metric] = means
    assert repeated > 30
    assert different == {
        ("er", "A_T"): {19.8, 19.4},
        ("er", "F_T"): {23.2, 29.1},
        ("er-las:tau=0", "A_T"): {19.8, 19.4},
        ("er-las:tau=0", "F_T"): {23.2, 29.1},
        ("er-las", "F_T"): {9.3, 10.7},
    }

"""Run directories with invented numbers, for the tests of the report."""

import json
from typing import Any

import numpy as np

ENV = {
    "evenstream": "0.1.0",
    "python": "3.11.7",
    "torch": "2.6.0+cpu",
    "platform": "Linux-6.1-x86_64",
    "cpu": "Intel(R) Xeon(R) CPU @ 2.20GHz",
    "commit": "0123456789abcdef0123456789abcdef01234567",
}

STATEMENT = "on a fixed class-balanced subset of 100 of 355 test images, every 5 steps"


def make_metrics(
    method="er",
    seed=0,
    *,
    stream="c-digits",
    n_tasks=5,
    classes_per_task=2,
    skill=0.5,
    status="finished",
):
    """Invented numbers that look like a run: the less skill, the more is forgotten."""
    rng = np.random.default_rng([seed, n_tasks, int(skill * 1000)])
    tasks = [
        [str(t * classes_per_task + c) for c in range(classes_per_task)] for t in range(n_tasks)
    ]
    matrix: list[list[Any]] = [[None] * n_tasks for _ in range(n_tasks)]
    for i in range(n_tasks):
        for j in range(i + 1):
            age = (i - j) / max(1, n_tasks - 1)
            value = 97 - 3 * j / n_tasks - (1 - skill) * 75 * age**0.6 + rng.normal(0, 1.5)
            matrix[i][j] = round(float(np.clip(value, 0, 100)), 4)
    average = [float(np.mean(matrix[i][: i + 1])) for i in range(n_tasks)]
    share = np.ones(n_tasks) + rng.normal(0, 0.06, n_tasks)
    share[-1] += (1 - skill) * n_tasks * 0.7
    share = np.clip(share, 0.02, None) / np.clip(share, 0.02, None).sum()
    pace = 0.6 + 0.3 * skill
    seconds = (np.arange(1, n_tasks + 1) * pace + rng.normal(0, 0.02, n_tasks)).tolist()
    best = [max(matrix[i][j] for i in range(j, n_tasks - 1)) for j in range(n_tasks - 1)]
    drops = [best[j] - matrix[-1][j] for j in range(n_tasks - 1)]
    forgetting = float(np.mean(drops)) if drops else None
    mammoth = float(np.mean(np.maximum(drops, 0))) if drops else None
    metrics = {
        "format": 1,
        "method": method,
        "stream": stream,
        "seed": seed,
        "status": status,
        "tasks": tasks,
        "accuracy_matrix": matrix,
        "average_accuracy": average,
        "A_T": average[-1],
        "F_T": forgetting,
        "F_T_mammoth": mammoth,
        "prediction_share": share.tolist(),
        "true_share": [1 / n_tasks] * n_tasks,
        "train_seconds_after_task": seconds,
        "train_seconds": seconds[-1],
        "eval_seconds": 0.4,
        "steps": 145,
        "samples": 1437,
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        **_further(rng, skill, tasks, average),
    }
    if status != "finished":
        done = max(1, n_tasks // 2)
        metrics["accuracy_matrix"] = matrix[:done]
        metrics["average_accuracy"] = average[:done]
        for key in ("A_T", "A_AUC", "F_T", "F_T_mammoth", "prediction_share", "class_recall"):
            metrics[key] = None
    return metrics


def _further(rng, skill, tasks, average):
    classes = [name for task in tasks for name in task]
    recall = np.clip(100 * rng.normal(skill, 0.2, len(classes)), 0, 100)
    steps = np.arange(1, 30) / 29
    online = np.clip(100 - 60 * (1 - skill) * steps + rng.normal(0, 4, 29), 0, 100)
    return {
        "classes": classes,
        "class_recall": recall.tolist(),
        "online": {
            "every": 5,
            "statement": STATEMENT,
            "accuracy": online.tolist(),
        },
        "A_AUC": float(online.sum() * 5 / 145),
        "A_T_cbl": average[-1] - 1,
        "A_T_cbl_classes": average[-1] - 2,
        "prequential_accuracy": 50 + 30 * skill,
        "ECE": 20 - 10 * skill,
        "recency_bias": 0.3 * (1 - skill),
        "BWT": -60 * (1 - skill),
        "FWT": None,
        "skipped_train": {"count": 0, "first": []},
        "skipped_test": {"count": 0, "first": []},
    }


NEW = (
    "classes", "class_recall", "online", "A_AUC", "A_T_cbl", "A_T_cbl_classes",
    "prequential_accuracy", "ECE", "recency_bias", "BWT", "FWT", "eval_seconds", "skipped_train",
    "skipped_test",
)  # fmt: skip
"""What runs of the first version do not have (besides `eval_seconds`, which was not shown)."""


def write_run(directory, metrics, env=ENV):
    directory.mkdir(parents=True)
    (directory / "metrics.json").write_text(json.dumps(metrics))
    (directory / "env.json").write_text(json.dumps(env))
    config = f"method = {json.dumps(metrics['method'])}\nseed = {metrics['seed']}\n"
    (directory / "config.toml").write_text(config)
    return directory


def write_comparison(directory, skills, seeds=(0, 1, 2), **options):
    """Write `runs/<folder>/seed-<s>` for each method of a dictionary from name to skill."""
    directory.mkdir(parents=True, exist_ok=True)
    for k, (method, skill) in enumerate(skills.items()):
        for seed in seeds:
            metrics = make_metrics(method, seed, skill=skill, **options)
            write_run(directory / "runs" / f"m{k}" / f"seed-{seed}", metrics)
    (directory / "summary.json").write_text(json.dumps({method: {} for method in skills}))
    return directory

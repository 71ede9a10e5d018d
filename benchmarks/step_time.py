"""Step times as ratios, A and B in turn in one process: `make bench`.

Ratios are medians over paired steps with their quartiles; absolute times are for orientation only.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from evenstream import Learner, LogitAdjustedSoftmax
from evenstream.run.environment import describe_environment

PAIRS = 200


def ratio(a, b, pairs=PAIRS, warm_up=5):
    """Median and quartiles of time(a) / time(b) over alternating calls."""
    for _ in range(warm_up):
        a(), b()
    ratios, times = [], []
    for _ in range(pairs):
        start = time.perf_counter()
        a()
        middle = time.perf_counter()
        b()
        end = time.perf_counter()
        ratios.append((middle - start) / (end - middle))
        times.append((middle - start) * 1e3)
    low, median, high = statistics.quantiles(ratios, n=4)
    return {"median": median, "low": low, "high": high, "a_ms": statistics.median(times)}


def learner_step(method, model, shape, memory=1000):
    """A function that makes one step with a random batch of 10 classes."""
    generator = torch.Generator().manual_seed(0)
    learner = Learner(method, model, memory=memory)
    batches = [
        (
            torch.randint(0, 256, (32, *shape), generator=generator, dtype=torch.uint8),
            torch.randint(0, 10, (32,), generator=generator).tolist(),
        )
        for _ in range(8)
    ]
    turn = iter(range(10**9))

    def step():
        learner.learn(*batches[next(turn) % len(batches)])

    return step


def criterion_step(criterion, n_classes):
    """A function that scores a batch of 64 and goes backward."""
    logits = torch.randn(64, n_classes, requires_grad=True)
    labels = torch.randint(0, n_classes, (64,))

    def step():
        criterion(logits, labels).backward()
        logits.grad = None

    return step


def main():
    """Measure, print a table, write the numbers to benchmarks/step_time.json."""
    torch.set_num_threads(1)
    results = {}
    for model, shape in (("mlp", (1, 28, 28)), ("slim-resnet18", (3, 32, 32))):
        pair = (learner_step("er-las", model, shape), learner_step("er", model, shape))
        pairs = PAIRS if model == "mlp" else 20
        results[f"er-las / er, {model}"] = ratio(*pair, pairs=pairs, warm_up=2)
    for n_classes in (10, 1_000, 100_000):
        las, plain = LogitAdjustedSoftmax(), F.cross_entropy
        pair = (criterion_step(las, n_classes), criterion_step(plain, n_classes))
        results[f"LAS / cross-entropy, {n_classes} classes"] = ratio(*pair)
    long, short = LogitAdjustedSoftmax(window=1000), LogitAdjustedSoftmax(window=1)
    pair = (criterion_step(long, 1000), criterion_step(short, 1000))
    results["LAS with window 1000 / window 1"] = ratio(*pair, warm_up=1100)
    large, small = (learner_step("er", "mlp", (64,), memory=m) for m in (1_000_000, 1_000))
    results["er with memory 1,000,000 / 1,000"] = ratio(large, small)
    for name, r in results.items():
        print(f"{name:40} {r['median']:.3f}  [{r['low']:.3f}, {r['high']:.3f}]  {r['a_ms']:.2f} ms")
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/step_time.json")
    record = {"environment": describe_environment(), "ratios": results}
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

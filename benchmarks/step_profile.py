"""Where the time of a step goes, before and after: `python -m benchmarks.step_profile`.

Before: forward, backward and SGD of the network as anybody would write it, on ready images. After:
the whole step of `er-las`. Shares of the time by PyTorch's profiler; the times themselves need a
quiet machine.
"""

from __future__ import annotations

import argparse

from torch.profiler import ProfilerActivity, profile

from benchmarks import parts
from evenstream.run.machine import use_machine

KINDS = {
    "convolution, backward": ("convolution_backward",),
    "convolution as products of matrices": ("aten::mm", "bmm", "aten::unfold", "aten::copy_"),
    "convolution, forward": ("mkldnn_convolution", "aten::convolution", "aten::_convolution"),
    "batch normalisation, both ways": ("batch_norm",),
}
"""What operators are counted as, by a part of their names; the first that fits."""
REST = "everything else"


def main() -> None:
    """Profile both and print the shares side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="slim-resnet18", choices=parts.SHAPES)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    use_machine(1)
    rows = 2 * parts.BATCH
    plain = parts.plain_baseline(args.network)
    before = parts.bare_step(plain, rows, parts.SHAPES[args.network])
    after = parts.steps_of(parts.learner_after("er-las", args.network), args.network)
    found = [_seconds_by_kind(call, args.steps) for call in (before, after)]
    print(f"{args.network}, {rows} images, time of a step: {_totals(found)}")
    for kind in (*KINDS, REST):
        shares = [kinds[kind] / sum(kinds.values()) for kinds in found]
        print(f"{kind:42} {shares[0]:6.1%} {shares[1]:6.1%}")


def _seconds_by_kind(call: parts.Call, steps: int) -> dict[str, float]:
    """Seconds of a step in operators of each kind, without those that they call."""
    for _ in range(3):
        call()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(steps):
            call()
    seconds = dict.fromkeys((*KINDS, REST), 0.0)
    for event in found.key_averages():
        fits = (kind for kind, names in KINDS.items() if any(name in event.key for name in names))
        seconds[next(fits, REST)] += event.self_cpu_time_total / 1e6 / steps
    return seconds


def _totals(found: list[dict[str, float]]) -> str:
    before, after = (sum(kinds.values()) for kinds in found)
    return f"{before * 1e3:.0f} ms before, {after * 1e3:.0f} ms after"


if __name__ == "__main__":
    main()

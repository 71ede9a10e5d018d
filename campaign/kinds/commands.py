"""Fuzzed command lines: they succeed or are refused in plain words, never with a traceback."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import stat
from contextlib import suppress
from pathlib import Path

from campaign.processes import Failure, Life

EACH, FULL = 1, 1000
_ROOM = 6 * 2**30
"""Bytes of memory that a command may use, whatever its words ask for."""
_LINES = """
run er-las --stream S/table.npz --out new --network mlp --memory 12 --batch 4 --lr 0.05 --tasks 2
run er@ncm --stream c-digits:fraction=0.02 --epochs 2 --milestones 1 --out new --eval-every 5
compare er er-las --stream S/table.npz --seeds 1 --jobs 1 --out new
resume done --jobs 2 --track tensorboard
report done --out page.html
sweep S/small.toml --jobs 1 --seeds 1 --cells method=er memory=12 --out store
sweep S/small.toml --scale quick --retries 0 --no-keep --dtype float32 --device cpu
learn plant --from S/table.csv --again
learn new --from S/table.csv --label label --ignore a b --batch 4 --memory 8
learn new --from S/rows.npz --method er-ace --network mlp --lr 0.1 --seed 3 --corrupt skip
learn new --from - --patience 0.1 --checkpoint-every 2
learn new --start done --from S/pictures.npz --size 8
predict plant S/table.csv --out new.csv --top 2
predict plant S/table.csv --label label --ignore a
predict done S/pictures.npz --device cpu --threads 1
pretrain --stream c-digits:reserve=4,fraction=0.2 --epochs 1 --batch 64 --lr 0.1 --out new
methods er-las:tau=2
streams s-cifar100:tasks=5
streams S/table.npz
data list
data get mnist
data verify cifar10
data import mnist S
paper list
paper run mnist --scale smoke --out store --jobs 1 --seeds 1
paper report --out store
--version
""".strip().splitlines()
_WORDS = """
- -- --- -1 0 1 3 1e400 nan inf -inf 0x10 1_0 ９ é . .. null done/x done plant new : = =er ' " { *
-x er-las:tau= er-las:tau=1,tau=2 er-las:tau=nan er@@ncm er: er:x=1 @ncm mlp resnet18 cuda cuda:99
meta
c-digits: c-digits:fraction=0 c-digits:fraction=-1 c-digits:tasks=99 c-digits:x=1 [red] --help --out
--stream --memory=-1 --batch=0 --lr=nan --threads=-1 float64 tensorboard,x done/config.toml no/where
done/metrics.json no.csv no.npz text.csv text.npz text.toml text.parquet text.png http://x/
"""
_OPTIONS = """
epochs milestones store memory seed batch replay-batch lr network weights augment optimizer momentum
weight-decay device dtype threads class-order tasks test-fraction inference batch-schedule corrupt
eval-every eval eval-images eval-future protocol checkpoint-every track seeds jobs out stream top
label ignore patience size from start method scale cells retries backend address warmup
""".split()  # noqa: SIM905
_NUMBERS = [
    "0",
    "-1",
    "2",
    "0.5",
    "1e-9",
    "1e30",
    "nan",
    "inf",
    "99999999999",
    "9223372036854775808",
]
_ODD = [
    *_WORDS.split(), "", " ", "1" * 40, "\udc80", "\x1b[31mred", "a\nb", "\u202eevil", "a\x00b",
    "x" * 5000, "d/" * 3000,
]  # fmt: skip


def attack(seed: int, folder: Path) -> None:
    """Run one command line in a folder that has a bit of everything."""
    draw, home, place = random.Random(seed), folder.parents[1], folder / "in" / "side"
    shutil.copytree(home / "first", place / "done")
    shutil.copytree(home / "samples" / "plant", place / "plant")
    for suffix in ("csv", "npz", "toml", "parquet", "png"):
        (place / f"text.{suffix}").write_bytes(b"label,a\nx,1\n\xff\x00,\x1b[31m\n")
    device = place / "null"
    with suppress(PermissionError):
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    words = [word.replace("S/", f"{home / 'samples'}/") for word in _mutated(draw)]
    real = draw.random() < 0.05 and not any("\0" in word for word in words)
    room = (_ROOM, _ROOM)
    life = Life(
        words, place, lambda: resource.setrlimit(resource.RLIMIT_AS, room), real=real,
        feed=b"a,label\n1,x\n2,y\nz\n",
    )  # fmt: skip
    stopped = not life.ends(15)  # it may take long, if that is what the words say
    for _ in range(2):
        if not life.ends(0):
            life.hit(signal.SIGINT)
            life.ends(30)
    life.end(60).check((0, 1, 2, 130, -signal.SIGINT) if stopped else (0, 1, 2))
    if device.exists() and not device.is_char_device():
        raise Failure(f"a device was replaced by {words}")


def _mutated(draw: random.Random) -> list[str]:
    words = draw.choice(_LINES).split(" ")
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        values = [i for i, word in enumerate(words) if i and not word.startswith("--")]
        at = draw.choice(values if values and draw.random() < 0.7 else range(len(words)))
        change = draw.random()
        if change < 0.3:
            words += [f"--{draw.choice(_OPTIONS)}", draw.choice(draw.choice([_NUMBERS, _ODD]))]
        elif change < 0.6:
            words[at] = draw.choice([*_ODD, *_NUMBERS])
        elif change < 0.75:
            words.insert(at + 1, draw.choice(_ODD))
        elif change < 0.85 and len(words) > 1:
            del words[at]
        elif change < 0.95:
            words.insert(at, draw.choice(words))
        else:
            draw.shuffle(words)
    return words

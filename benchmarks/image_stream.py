"""What a stream of image files costs in memory, on top of the learner.

Generated JPEGs go through the ImageNet reader and a learner with ImageNet's batches and crops. The
learner first runs on random images in memory until its replay memory is full: the peak of that is
its own. The peak over the stream of files is then compared to it. Linux only (/proc/self).
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from evenstream import Learner
from evenstream.data.images.imagenet import read_imagenet
from evenstream.data.reading import read_in_order
from evenstream.run.environment import describe_environment

LIMIT_MB = 300
CLASSES, CLASSES_PER_TASK = 100, 10


def write_jpegs(root, n):
    """Textured images with sides of 260 to 400 pixels, in the folders of ImageNet."""
    rng = np.random.default_rng(0)
    textures = []
    for coarse in rng.integers(0, 256, (20, 14, 14, 3), dtype=np.uint8):
        smooth = np.asarray(Image.fromarray(coarse).resize((500, 500)), dtype=np.int16)
        rough = smooth + rng.normal(0, 12, smooth.shape).astype(np.int16)
        textures.append(rough.clip(0, 255).astype(np.uint8))
    for number in range(n + CLASSES):
        folder = root / ("train" if number < n else "val") / f"n{number % CLASSES:08}"
        folder.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(260, 400, 2)
        top, left = rng.integers(0, 500 - height), rng.integers(0, 500 - width)
        pixels = textures[number % len(textures)][top : top + height, left : left + width]
        Image.fromarray(pixels).save(folder / f"{number}.JPEG", quality=85)


def peak_mb():
    """The most memory that was resident since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def run_alone(learner, batch, size):
    """Learn random images from memory until the replay memory is full, and one step more."""
    rng = np.random.default_rng(1)
    for _ in range(-(-learner.memory.capacity // batch) + 1):
        x = rng.integers(0, 256, (batch, 3, size, size), dtype=np.uint8)
        learner.learn(x, rng.integers(0, CLASSES, batch).tolist())


def run_on_files(learner, root, args):
    """The files in tasks of ten classes, at random inside a task; the number of images read."""
    dataset = read_imagenet(root, size=args.size)
    y, rng = dataset.y_train, np.random.default_rng(2)
    order = np.lexsort((rng.permutation(len(y)), y // CLASSES_PER_TASK))
    wanted = np.split(order, range(args.batch, len(order), args.batch))
    for read in read_in_order(dataset.x_train, wanted):
        if not args.read_only:
            learner.learn(read.x, y[read.rows].tolist())
    return len(order)


def decoding_rate(root, size, n=500):
    """Images per second of one core's time, so that other work on the machine does not count."""
    files = read_imagenet(root, size=size).x_train
    rows = np.linspace(0, len(files) - 1, n).astype(np.int64)
    began = time.process_time()
    files.read(rows)
    return n / (time.process_time() - began)


def measure(args, root):
    """Peaks in MB and rates in images per second."""
    write_jpegs(root, args.images)
    learner = Learner(
        "er-las",
        args.network,
        memory=args.memory,
        batch=args.batch,
        replay_batch=args.batch,
        augment=f"resized-crop0.75@{args.crop}+flip",
    )
    reset_peak()
    run_alone(learner, args.batch, args.size)
    alone = peak_mb()
    reset_peak()
    began = time.perf_counter()
    images = run_on_files(learner, root, args)
    seconds, streaming = time.perf_counter() - began, peak_mb()
    return {
        "images": images,
        "peak of the learner alone, MB": alone,
        "of which replay memory, MB": learner.memory.field("x").nbytes / 2**20,
        "peak over the stream, MB": streaming,
        "difference, MB": streaming - alone,
        "stream, images/s": images / seconds,
        "decoding on one core, images/s": decoding_rate(root, args.size),
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=256, help="pixels that are decoded and stored")
    parser.add_argument("--crop", type=int, default=224, help="pixels that the network sees")
    parser.add_argument("--network", default="mlp", help="the default is quick at 224 pixels")
    parser.add_argument("--batch", type=int, default=128, help="incoming, and as many replayed")
    parser.add_argument("--memory", type=int, default=500)
    parser.add_argument("--read-only", action="store_true", help="do not train on the files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/image_stream.json"))
    return parser.parse_args()


def main():
    """Measure, print a table, write the numbers to a JSON file."""
    args = parse_arguments()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="evenstream-images-") as folder:
        results = measure(args, Path(folder))
    for name, value in results.items():
        print(f"{name:36} {value:10,.0f}")
    within = results["difference, MB"] <= LIMIT_MB
    print(f"{'within' if within else 'NOT within'} {LIMIT_MB} MB of the learner's own")
    record = {"environment": describe_environment(), "limit_mb": LIMIT_MB, "results": results}
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

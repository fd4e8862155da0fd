#!/usr/bin/env python3
"""Decodes and augments image files with Pillow and NumPy, as bench/decode.cpp does; same arguments.

Each thread is a process. Pillow decodes; padding, crop, flip and normalisation are NumPy's, a batch at
a time where that is faster, and no process hands its batches on.
"""
import argparse
import json
import os
import time
from multiprocessing import Pool

import numpy as np
from PIL import Image

PADDING = 4
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)
STD = np.array([0.2470, 0.2435, 0.2616], np.float32)
SCALE, SHIFT = 1 / (255 * STD), -MEAN / STD


def files_below(folder):
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return sorted(paths, key=os.fsencode)


def load_batch(paths):
    """f32 (N, H, W, C)."""
    random = np.random.default_rng()
    batch = None
    for i, path in enumerate(paths):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        if batch is None:
            height, width, channels = pixels.shape
            batch = np.empty((len(paths), height, width, channels), np.uint8)
            padded = np.zeros((height + 2 * PADDING, width + 2 * PADDING, channels), np.uint8)
            offsets = random.integers(0, 2 * PADDING + 1, (len(paths), 2))
            flips = random.random(len(paths)) < 0.5
        padded[PADDING:-PADDING, PADDING:-PADDING] = pixels
        y, x = offsets[i]
        crop = padded[y:y + height, x:x + width]
        batch[i] = crop[:, ::-1] if flips[i] else crop
    return batch * SCALE + SHIFT


def measure(batches, seconds):
    """Images done, and the wall and processor time that took."""
    for batch in batches:
        load_batch(batch)
    done, begin, processor_begin = 0, time.monotonic(), time.process_time()
    while time.monotonic() < begin + seconds:
        done += sum(len(load_batch(batch)) for batch in batches)
    return done, time.monotonic() - begin, time.process_time() - processor_begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    paths = files_below(arguments.folder)[:arguments.images]
    batches = [paths[i:i + arguments.batch] for i in range(0, len(paths), arguments.batch)]
    # Each process has batches of its own, so that none waits for another.
    shares = [(batches[i::arguments.threads], arguments.seconds) for i in range(arguments.threads)]
    with Pool(arguments.threads) as pool:
        results = pool.starmap(measure, shares, chunksize=1)
    print(json.dumps({
        "images": len(paths), "threads": arguments.threads,
        "items_per_s": sum(done / elapsed for done, elapsed, _ in results),
        "items_per_processor_s": sum(r[0] for r in results) / sum(r[2] for r in results)}))


if __name__ == "__main__":
    main()

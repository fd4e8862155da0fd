#!/usr/bin/env python3
"""PyTorch's side of bench/train_step: the same training steps, measured the same way.

Cases are written workload:batch:precision:mode; one JSON line is printed for each:
{"workload", "batch", "precision", "mode", "device", "ms_per_step", "items_per_s", "peak_mib", "threads"}.

Workloads: mlp (784-256-10), lenet (LeNet-5 with ReLU and max pooling), cnn (the two convolutions
and dropout X: eager, or nhwc, which
keeps images and convolution weights in channels-last order. Precisions: fp32; with --device cuda also
tf32, and bf16 by autocast. There cuDNN times its algorithms first, and the optimizer is the fused one.
A step is the forward pass, cross-entropy, the backward pass and SGD with momentum and weight decay,
on one of four batches of random data made before.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Convolutions around a shortcut (He et al. 2015): two of 3x3, or with a bottleneck 1x1, 3x3 and 1x1."""

    def __init__(self, channels_in, channels, stride, bottleneck=False):
        super().__init__()
        # Channels, kernel and stride of each; the widest channels of a bottleneck are its last.
        layers = [(channels, 3, stride), (channels, 3, 1)]
        if bottleneck:
            layers = [(channels, 1, 1), (channels, 3, stride), (4 * channels, 1, 1)]
        body, last = [], channels_in
        for out, kernel, step in layers:
            body += [nn.Conv2d(last, out, kernel, step, padding=kernel // 2, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            last = out
        self.body = nn.Sequential(*body[:-1])
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != last:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, last, 1, stride, bias=False), nn.BatchNorm2d(last))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def stages(counts, bottleneck=False):
    """The four stages of blocks, from 64 channels on, with the head's pooling."""
    blocks, channels_in = [], 64
    for stage, count in enumerate(counts):
        channels = 64 << stage
        for number in range(count):
            blocks.append(Residual(channels_in, channels, 2 if stage and not number else 1, bottleneck))
            channels_in = 4 * channels if bottleneck else channels
    return *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()


def resnet18():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *stages((2, 2, 2, 2)),
        nn.Linear(512, 10))


def resnet50():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1),
        *stages((3, 4, 6, 3), bottleneck=True), nn.Linear(2048, 1000))


# The model, the shape of one image and the number of classes.
WORKLOADS = {
    "mlp": (mlp, (1, 28, 28), 10),
    "lenet": (lenet, (1, 28, 28), 10),
    "cnn": (cnn, (1, 28, 28), 10),
    "resnet18": (resnet18, (3, 32, 32), 10),
    "resnet50": (resnet50, (3, 224, 224), 1000),
}
PRECISIONS = ("fp32", "tf32", "bf16")
BATCHES = 4


def make_step(workload, batch, precision, mode, device):
    """A function that trains on batch number i."""
    make_model, image, classes = WORKLOADS[workload]
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if mode == "nhwc" else torch.contiguous_format
    model = make_model().train().to(device, memory_format=layout)
    data = [(torch.randn(batch, *image, device=device).contiguous(memory_format=layout),
             torch.randint(classes, (batch,), device=device)) for _ in range(BATCHES)]
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, **fused)

    def step(i):
        images, labels = data[i % BATCHES]
        optimizer.zero_grad(set_to_none=True)
        if precision == "bf16":
            with torch.autocast(device, torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
        else:
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def seconds_per_step(step, seconds, wait):
    """The median over blocks of steps, each block long enough for the clock; `wait` is for the device."""
    for i in range(10):
        step(i)
    wait()
    blocks, steps, end = [], BATCHES, time.perf_counter() + seconds
    while time.perf_counter() < end or len(blocks) < 5:
        start = time.perf_counter()
        for i in range(steps):
            step(i)
        wait()
        elapsed = time.perf_counter() - start
        if elapsed < 0.05 and not blocks:
            steps *= 2
        else:
            blocks.append(elapsed / steps)
    return statistics.median(blocks)


def measure(workload, batch, precision, mode, seconds, device):
    on_gpu = device == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    step = make_step(workload, batch, precision, mode, device)
    each = seconds_per_step(step, seconds, torch.cuda.synchronize if on_gpu else lambda: None)
    result = {"workload": workload, "batch": batch, "precision": precision, "mode": mode, "device": device,
              "ms_per_step": round(each * 1e3, 4), "items_per_s": round(batch / each, 1)}
    if on_gpu:
        result["peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    else:
        result["threads"] = torch.get_num_threads()
    return result


def parse_case(text):
    try:
        workload, batch, precision, mode = text.split(":")
        batch = int(batch)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: wants workload:batch:precision:mode, e.g. lenet:64:fp32:eager")
    if workload not in WORKLOADS or batch < 1 or precision not in PRECISIONS or mode not in ("eager", "nhwc"):
        raise argparse.ArgumentTypeError(
            f"{text}: workloads are {', '.join(WORKLOADS)}; precisions {', '.join(PRECISIONS)}; modes eager and nhwc")
    return workload, batch, precision, mode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=parse_case, metavar="CASE")
    parser.add_argument("--seconds", type=float, default=3, help="time measured for a case (%(default)s)")
    parser.add_argument("--threads", type=int, help="threads of the process (PyTorch's own choice)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="%(default)s")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cpu" and any(precision != "fp32" for _, _, precision, _ in arguments.cases):
        parser.error("on the CPU the precision is fp32")
    gpu = f" on {torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}" if arguments.device == "cuda" else ""
    print(f"PyTorch {torch.__version__}{gpu}", file=sys.stderr)
    for case in arguments.cases:
        print(json.dumps(measure(*case, arguments.seconds, arguments.device)), flush=True)


if __name__ == "__main__":
    main()

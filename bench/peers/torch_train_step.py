#!/usr/bin/env python3
"""PyTorch's side of bench/train_step: the same training steps, measured the same way.

Cases are written workload:batch:precision:mode; one JSON line is printed for each:
{"workload", "batch", "precision", "mode", "device", "ms_per_step", "items_per_s", "peak_mib", "threads"}.

Workloads: mlp (784-256-10), lenet (LeNet-5 with ReLU and max pooling), cnn (the two convolutions
and dropout of PyTorch's MNIST example), resnet18 (the CIFAR variant). Modes: eager, or nhwc, which
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
    """Two 3x3 convolutions around a shortcut (He et al. 2015, figure 2)."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

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


def resnet18():
    blocks, channels_in = [], 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(channels_in, channels, stride), Residual(channels, channels, 1)]
        channels_in = channels
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


# The model and the shape of one image.
WORKLOADS = {
    "mlp": (mlp, (1, 28, 28)),
    "lenet": (lenet, (1, 28, 28)),
    "cnn": (cnn, (1, 28, 28)),
    "resnet18": (resnet18, (3, 32, 32)),
}
PRECISIONS = ("fp32", "tf32", "bf16")
BATCHES = 4


def make_step(workload, batch, precision, mode, device):
    """A function that trains on batch number i."""
    make_model, image = WORKLOADS[workload]
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if mode == "nhwc" else torch.contiguous_format
    model = make_model().train().to(device, memory_format=layout)
    data = [(torch.randn(batch, *image, device=device).contiguous(memory_format=layout),
             torch.randint(10, (batch,), device=device)) for _ in range(BATCHES)]
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

#!/usr/bin/env python3
"""PyTorch's side of the golden tests of the image models. Needs PyTorch and torchvision.

tests/golden/vision_golden.py > tests/golden/vision.json   (made with PyTorch 1.13, torchvision 0.14)
tests/golden/vision_golden.py --check FILE...
tests/golden/vision_golden.py --check-from PROGRAM   (which writes files into the folder it is given)

Weights, images and labels come from an integer hash that the C++ side computes too, so that no large
file is kept: vision.json holds of each model the names and shapes of its state_dict, and the logits of
two images in evaluation mode (the first 20); and the losses of twenty training steps of a ResNet-18.
--check loads files of ours strictly into PyTorch's models: each names its model in its metadata and
holds there the logits that ours gave. Exits with 77 if PyTorch is not installed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import safetensors_file

try:
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}; PyTorch and torchvision come from tools/install_dependencies peers")
    sys.exit(77)

# -- the formula ---------------------------------------------------------------------------------


def unit(name, count):
    """`count` numbers in [-1, 1) of 24 bits: element i of the tensor `name`."""
    seed = 2166136261
    for byte in name.encode():  # FNV-1a
        seed = (seed ^ byte) * 16777619 % 2**32
    h = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + seed) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):  # the end of MurmurHash3
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return (h >> np.uint64(8)).astype(np.float64) / 2**23 - 1


def value(name, shape):
    """Weights of variance 1 / fan_in; norms that keep the signal's size."""
    u = unit(name, int(np.prod(shape))).reshape(shape)
    if name.endswith("num_batches_tracked"):
        return np.int64(7)
    if name.endswith("running_var"):
        return 1 + 0.5 * u
    if len(shape) > 1:
        return u * np.sqrt(3 / np.prod(shape[1:]))
    return 0.75 + 0.25 * u if name.endswith("weight") else 0.1 * u


def images(name, count, size):
    return torch.from_numpy(unit(name, count * 3 * size * size).reshape(count, 3, size, size))


def labels(name, count):
    return torch.from_numpy(np.floor((unit(name, count) + 1) * 5).astype(np.int64))


def fill(model):
    model.load_state_dict({key: torch.from_numpy(np.asarray(value(key, tuple(tensor.shape))))
                           for key, tensor in model.state_dict().items()})
    return model


# -- models --------------------------------------------------------------------------------------


def cifar_resnet18():
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def cifar_vgg(make):
    model = make(num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool2d(1)
    model.classifier = nn.Sequential(nn.Linear(512, 10))
    return model


def cifar_mobilenet_v2():
    model = torchvision.models.mobilenet_v2(num_classes=10)
    model.features[0][0].stride = model.features[2].conv[1][0].stride = (1, 1)
    return model


def cifar_densenet(growth, depth, **options):
    model = torchvision.models.DenseNet(growth, depth, num_classes=10, **options)
    channels = model.features.norm0.num_features
    model.features.conv0 = nn.Conv2d(3, channels, 3, padding=1, bias=False)
    model.features.pool0 = nn.Identity()
    return model


class WideBlock(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(channels_in), nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        if channels_in != channels:
            self.shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(x))
        shortcut = self.shortcut(h) if hasattr(self, "shortcut") else x
        return self.conv2(F.relu(self.bn2(self.conv1(h)))) + shortcut


class WideResNet(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        channels_in = 16
        for i, channels in enumerate((16 * width, 32 * width, 64 * width)):
            blocks = [WideBlock(channels_in, channels, 1 if i == 0 else 2)]
            blocks += [WideBlock(channels, channels, 1) for _ in range((depth - 4) // 6 - 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            channels_in = channels
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.fc = nn.Linear(channels_in, 10)

    def forward(self, x):
        h = F.relu(self.bn1(self.layer3(self.layer2(self.layer1(self.conv1(x))))))
        return self.fc(h.mean((2, 3)))


# name: (constructor, size of the images, or 0 for no logits)
MODELS = {
    "resnet18": (torchvision.models.resnet18, 64),
    "resnet34": (torchvision.models.resnet34, 0),
    "resnet50": (torchvision.models.resnet50, 64),
    "vgg11": (torchvision.models.vgg11, 0),
    "vgg11_bn": (torchvision.models.vgg11_bn, 0),
    "vgg16": (torchvision.models.vgg16, 0),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, 64),
    "mobilenet_v2_0.5": (lambda: torchvision.models.mobilenet_v2(width_mult=0.5), 0),
    "densenet121": (torchvision.models.densenet121, 64),
    "densenet169": (torchvision.models.densenet169, 0),
    "densenet201": (torchvision.models.densenet201, 0),
    "cifar_resnet18": (cifar_resnet18, 32),
    "cifar_vgg11": (lambda: cifar_vgg(torchvision.models.vgg11), 32),
    "cifar_vgg11_bn": (lambda: cifar_vgg(torchvision.models.vgg11_bn), 32),
    "cifar_mobilenet_v2": (cifar_mobilenet_v2, 32),
    "cifar_densenet121": (lambda: cifar_densenet(32, (6, 12, 24, 16)), 0),
    "cifar_densenet_small": (lambda: cifar_densenet(12, (2, 3, 4, 2), num_init_features=24, bn_size=3), 32),
    "cifar_wide_resnet_16_2": (lambda: WideResNet(16, 2), 32),
    "cifar_wide_resnet_28_10": (lambda: WideResNet(28, 10), 0),
}


def evaluate(model, size, dtype=torch.float64):
    with torch.no_grad():
        return model.eval().to(dtype)(images("images", 2, size).to(dtype))


def describe(name):
    make, size = MODELS[name]
    model = make()
    entry = {"parameters": sum(p.numel() for p in model.parameters()),
             "tensors": {key: list(tensor.shape) for key, tensor in model.state_dict().items()}}
    if size:  # in f64, so that what differs from it is ours
        entry |= {"size": size, "logits": evaluate(fill(model), size).flatten()[:20].tolist()}
    return entry


def losses(dtype):
    """Of twenty steps of the CIFAR ResNet-18: cross-entropy, SGD with momentum and weight decay."""
    model = fill(cifar_resnet18()).train().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    values = []
    for step in range(20):
        loss = F.cross_entropy(model(images(f"images {step}", 4, 32).to(dtype)), labels(f"labels {step}", 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def write_golden():
    entries = {name: describe(name) for name in MODELS}
    training = {"batch": 4, "lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4, "losses": losses(torch.float64)}
    text = json.dumps({"models": entries, "training": training}, indent=1)
    # A list on one line.
    lines, inside = [], False
    for line in text.splitlines():
        if inside:
            lines[-1] += line.strip()
            inside = not line.strip().startswith("]")
            lines[-1] += " " if inside and line.endswith(",") else ""
        else:
            lines.append(line)
            inside = line.endswith("[")
    print("\n".join(lines))


# -- files of ours -------------------------------------------------------------------------------


def check(path):
    tensors, metadata = safetensors_file.read(path)
    make, _ = MODELS[metadata["model"]]
    kinds = {"F32": np.float32, "I64": np.int64}
    model = make()
    model.load_state_dict({name: torch.from_numpy(np.array(values, kinds[dtype]).reshape(shape))
                           for name, (dtype, shape, values) in tensors.items()}, strict=True)
    ours = np.array(json.loads(metadata["logits"]))
    theirs = evaluate(model, int(metadata["size"]), torch.float32).numpy().flatten()
    assert ours.shape == theirs.shape, f"{path}: {ours.shape} logits, PyTorch gives {theirs.shape}"
    difference = np.abs(ours - theirs).max()
    print(f"{metadata['model']}: largest difference of a logit {difference:.1e}, "
          f"largest logit {np.abs(theirs).max():.2f}")
    assert difference < 1e-4, f"{path}: ours {ours}, PyTorch's {theirs}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        for file in sys.argv[2:]:
            check(file)
    elif sys.argv[1:2] == ["--check-from"]:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.argv[2], folder], check=True)
            for file in sorted(Path(folder).iterdir()):
                check(file)
    else:
        write_golden()

#!/usr/bin/env python3
"""Makes the golden files beside it: weights of PyTorch models, inputs, and the logits PyTorch gives.

tests/golden/make_golden.py   (made with PyTorch 1.13; newer ones draw the same numbers)

lenet.safetensors     state_dict of LeNet as layers/models/lenet.h has it
lenet_io.safetensors  input (4, 1, 28, 28) and logits (4, 10)
norm.safetensors      state_dict of a small network with batch normalisation, after three batches
norm_io.safetensors   input (2, 3, 8, 8) and its logits (2, 5) in evaluation mode
"""
from pathlib import Path

import torch
from torch import nn

import safetensors_file

HERE = Path(__file__).parent
DTYPES = {torch.float32: "F32", torch.int64: "I64"}


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


def save(name, tensors):
    safetensors_file.write(HERE / f"{name}.safetensors", {
        key: (DTYPES[value.dtype], value.shape, value.flatten().tolist()) for key, value in tensors.items()
    }, {"format": "pt"})


def make(name, model, shape):
    x = torch.randn(shape)
    with torch.no_grad():
        logits = model.eval()(x)
    save(name, model.state_dict())
    save(f"{name}_io", {"input": x, "logits": logits})


torch.manual_seed(1)
make("lenet", LeNet(), (4, 1, 28, 28))

torch.manual_seed(2)
norm = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                     nn.Flatten(), nn.Linear(64, 5))
nn.init.uniform_(norm[1].weight)
nn.init.uniform_(norm[1].bias)
for _ in range(3):
    norm(2 * torch.randn(8, 3, 8, 8) + 1)
make("norm", norm, (2, 3, 8, 8))

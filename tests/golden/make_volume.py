#!/usr/bin/env python3
"""Makes volume.safetensors and volume_io.safetensors beside it: the state_dict of PyTorch layers of sequences and
volumes, and for each its input (channels first) and PyTorch's result.

tests/golden/make_volume.py   (made with PyTorch 1.13)
"""
from pathlib import Path

import torch
from torch import nn

import safetensors_file

HERE = Path(__file__).parent


def save(name, tensors):
    safetensors_file.write(HERE / f"{name}.safetensors",
                           {key: ("F32", value.shape, value.flatten().tolist()) for key, value in tensors.items()})


torch.manual_seed(5)
layers = nn.ModuleDict({
    "conv1": nn.Conv1d(4, 2, 4, padding="same", groups=2),
    "conv3": nn.Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0), groups=2),
    "up1": nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2),
    "up2": nn.ConvTranspose2d(3, 2, (3, 2), stride=2),
    "up3": nn.ConvTranspose3d(4, 2, (2, 3, 1), stride=(1, 2, 2), padding=(0, 1, 0), groups=2),
})
inputs = {"conv1": (2, 4, 6), "conv3": (1, 2, 3, 4, 2), "up1": (2, 4, 5), "up2": (1, 3, 2, 3), "up3": (1, 4, 2, 3, 2)}
io = {}
for name, shape in inputs.items():
    io[f"{name}.x"] = torch.randn(shape)
    io[f"{name}.y"] = layers[name](io[f"{name}.x"]).detach()
save("volume", layers.state_dict())
save("volume_io", io)

#!/usr/bin/env python3
"""Makes layers.safetensors beside it: PyTorch's layers, their states, inputs, results and gradients in f64.

tests/golden/make_layers.py   (made with PyTorch 1.13)

The cases are those of layers_test.cpp; what is before a "/" in a name is the layer, and "/eval" says that it is
not in training. "NAME:p.KEY" are its parameters and buffers before the call, exact in f32 and in PyTorch's layout,
"NAME:x" and "NAME:y" input and result, "NAME:dx" and "NAME:d.KEY" the gradients of sum(y * weights), and "NAME:b.KEY"
buffers after the call. Channels are last in x, y and dx.
"""
import struct
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import safetensors_file
from function_golden import DTYPES, normal, uniform, weights

HERE = Path(__file__).parent
TENSORS = {}


class RMSNorm(nn.Module):
    """Zhang and Sennrich 2019; PyTorch 1.13 has none."""

    def __init__(self, size, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Formula(nn.Module):
    def __init__(self, formula):
        super().__init__()
        self.forward = formula


def case(name, layer, x, convert=False, rename=""):
    """`convert`: the layer takes channels first. `rename` is left out of the names in its state."""
    layer = layer.double().train(not name.endswith("/eval"))
    with torch.no_grad():
        for key, value in layer.state_dict().items():
            if value.is_floating_point():
                value.copy_(uniform(0.3, 2, *value.shape) if key == "running_var" else normal(*value.shape, scale=0.5))
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    x = x.clone().requires_grad_(x.is_floating_point())
    y = layer(x.movedim(-1, 1).contiguous() if convert else x)
    y = y.movedim(1, -1) if convert else y
    found = {"x": x.detach(), "y": y.detach()} | {f"p.{key}": value for key, value in state.items()}
    if y.requires_grad:
        (y * weights(y.shape)).sum().backward()
        found |= {f"d.{key}": value.grad for key, value in layer.named_parameters()}
        found |= {"dx": x.grad} if x.requires_grad else {}
    found |= {f"b.{key}": value for key, value in layer.named_buffers()}
    for key, tensor in found.items():
        key = key.replace(rename, "")
        assert f"{name}:{key}" not in TENSORS, name
        TENSORS[f"{name}:{key}"] = DTYPES[tensor.dtype], tensor.shape, tensor.flatten().tolist()


def images(name, layer, *shape):
    case(name, layer, normal(*shape), convert=True)


def activations():
    x = normal(3, 6, scale=2.5)
    for layer in (nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.SiLU(), nn.Mish(), nn.Softplus(),
                  nn.ELU(), nn.SELU(), nn.LeakyReLU(), nn.Hardswish(), nn.PReLU()):
        case(type(layer).__name__, layer, x)
    for layer in (nn.Identity(), nn.Hardtanh(), nn.Softsign(), nn.LogSigmoid(), nn.CELU(), nn.Threshold(0.25, -3),
                  nn.Hardshrink(), nn.Softshrink(), nn.Tanhshrink()):
        case(type(layer).__name__, layer, x)
    case("Hardtanh/bounds", nn.Hardtanh(-2, 0.5), x)
    case("CELU/alpha", nn.CELU(0.5), x)
    case("Hardshrink/lambda", nn.Hardshrink(1.25), x)
    case("Softshrink/lambda", nn.Softshrink(1.25), x)
    # The gradient of PyTorch's own has a sixth of f32 in it.
    case("Hardsigmoid", Formula(lambda x: (x / 6 + 0.5).clamp(0, 1)), x)
    case("GELU/tanh", nn.GELU(approximate="tanh"), x)
    case("Softplus/beta", nn.Softplus(2, 3), x)
    case("ELU/alpha", nn.ELU(0.7), x)
    case("LeakyReLU/slope", nn.LeakyReLU(0.3), x)
    images("PReLU/channels", nn.PReLU(3), 2, 2, 4, 3)
    for kind in (nn.GLU, nn.Softmax, nn.LogSoftmax):
        case(kind.__name__, kind(dim=-1), x)
        case(f"{kind.__name__}/of_dimension", kind(dim=1), normal(2, 4, 3))


def products():
    case("Linear", nn.Linear(4, 3), normal(2, 5, 4))
    case("Linear/no_bias", nn.Linear(4, 3, bias=False), normal(5, 4))
    case("Linear/relu", nn.Sequential(nn.Linear(4, 3), nn.ReLU()), normal(5, 4), rename="0.")
    case("Embedding", nn.Embedding(5, 3), torch.tensor([[4, 0, 2], [2, 2, 1]]))
    case("Embedding/padding", nn.Embedding(5, 3, padding_idx=2), torch.tensor([[4, 0, 2], [2, 2, 1]]))
    case("Flatten", nn.Flatten(), normal(3, 4))
    case("Unflatten", nn.Unflatten(1, (2, 3)), normal(3, 6, 2))
    case("Unflatten/last", nn.Unflatten(-1, (4, 2)), normal(3, 8))
    images("Flatten/images", nn.Flatten(), 2, 3, 2, 4)
    images("Flatten/volumes", nn.Flatten(), 2, 3, 2, 2, 3)


def pads():
    # Of the last direction first.
    each = {1: (1, 2), 2: (2, 0, 1, 2), 3: (1, 0, 2, 1, 0, 1)}
    shapes = {1: (2, 4, 3), 2: (2, 3, 4, 2), 3: (1, 2, 3, 3, 2)}
    for dims, shape in shapes.items():
        for name, make in (("Zero", lambda p: getattr(nn, f"ConstantPad{dims}d")(p, 0)),
                           ("Constant", lambda p: getattr(nn, f"ConstantPad{dims}d")(p, -1.5)),
                           ("Reflection", getattr(nn, f"ReflectionPad{dims}d")),
                           ("Replication", getattr(nn, f"ReplicationPad{dims}d")),
                           ("Circular", lambda p: Formula(
                               lambda x, p=p: F.pad(x, (p,) * 2 * dims if p == 1 else p, mode="circular")))):
            images(f"{name}Pad{dims}d", make(1), *shape)
            images(f"{name}Pad{dims}d/each", make(each[dims]), *shape)


def convolutions():
    images("Conv1d", nn.Conv1d(3, 4, 3), 2, 7, 3)
    images("Conv1d/strided", nn.Conv1d(4, 2, 3, stride=2, padding=3, dilation=2, groups=2, bias=False), 2, 7, 4)
    images("Conv1d/same", nn.Conv1d(2, 3, 4, padding="same"), 2, 5, 2)
    images("Conv2d", nn.Conv2d(3, 4, 3, padding=1), 2, 4, 5, 3)
    images("Conv2d/strided",
           nn.Conv2d(6, 4, (2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False), 2, 5, 6, 6)
    images("Conv2d/depthwise", nn.Conv2d(3, 6, 3, groups=3), 1, 4, 5, 3)
    images("Conv3d", nn.Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0), groups=2), 1, 3, 4, 2, 2)
    images("ConvTranspose1d", nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), 2, 5, 4)
    images("ConvTranspose2d", nn.ConvTranspose2d(3, 2, (3, 2), stride=2), 1, 2, 3, 3)
    images("ConvTranspose2d/dilated", nn.ConvTranspose2d(4, 6, 3, dilation=2, padding=1, groups=2, bias=False), 1, 3, 2,
           4)
    images("ConvTranspose3d", nn.ConvTranspose3d(4, 2, (2, 3, 1), stride=(1, 2, 2), padding=(0, 1, 0), groups=2), 1, 2,
           3, 2, 4)


def pools():
    sizes = {"1d": (1, 7, 2), "2d": (2, 5, 7, 3), "3d": (1, 5, 4, 6, 2)}
    for dims, shape in sizes.items():
        largest, mean = getattr(nn, f"MaxPool{dims}"), getattr(nn, f"AvgPool{dims}")
        images(f"MaxPool{dims}", largest(2), *shape)
        images(f"MaxPool{dims}/overlapping", largest(3, stride=2, padding=1, ceil_mode=True), *shape)
        images(f"AvgPool{dims}", mean(2), *shape)
        images(f"AvgPool{dims}/unpadded", mean(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), *shape)
        images(f"AdaptiveMaxPool{dims}", getattr(nn, f"AdaptiveMaxPool{dims}")(3), *shape)
        images(f"AdaptiveAvgPool{dims}", getattr(nn, f"AdaptiveAvgPool{dims}")(3), *shape)
    images("GlobalAvgPool2d", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), *sizes["2d"])
    images("GlobalMaxPool2d", nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten()), *sizes["2d"])


def norms():
    case("LayerNorm", nn.LayerNorm(5), normal(2, 3, 5))
    case("LayerNorm/two", nn.LayerNorm((3, 5), eps=0.1), normal(2, 3, 5))
    case("LayerNorm/plain", nn.LayerNorm(5, elementwise_affine=False), normal(2, 3, 5))
    case("RMSNorm", RMSNorm(5, 1e-3), normal(2, 3, 5))
    images("GroupNorm", nn.GroupNorm(2, 6), 2, 3, 2, 6)
    images("GroupNorm/plain", nn.GroupNorm(3, 6, eps=0.1, affine=False), 2, 4, 6)
    for dims, shape in {"1d": (3, 4, 3), "2d": (2, 3, 2, 3), "3d": (2, 2, 1, 3, 3)}.items():
        batch, instance = getattr(nn, f"BatchNorm{dims}"), getattr(nn, f"InstanceNorm{dims}")
        images(f"BatchNorm{dims}", batch(3), *shape)
        images(f"BatchNorm{dims}/eval", batch(3), *shape)
        images(f"BatchNorm{dims}/options", batch(3, eps=0.1, momentum=0.3, affine=False), *shape)
        images(f"InstanceNorm{dims}", instance(3), *shape)
        images(f"InstanceNorm{dims}/affine", instance(3, eps=0.1, affine=True), *shape)
    case("BatchNorm1d/samples", nn.BatchNorm1d(3), normal(5, 3))


def resamplings():
    for name, mode, factor, shape in (("Upsample1d", "linear", 3, (2, 4, 2)),
                                      ("Upsample", "bilinear", (2, 3), (2, 3, 2, 2)),
                                      ("Upsample3d", "trilinear", (1, 3, 2), (1, 3, 2, 3, 2))):
        images(name, nn.Upsample(scale_factor=2), *shape)
        images(f"{name}/nearest", nn.Upsample(scale_factor=factor, mode="nearest"), *shape)
        for corners in (False, True):
            images(f"{name}/linear{'_corners' if corners else ''}",
                   nn.Upsample(scale_factor=factor, mode=mode, align_corners=corners), *shape)
    images("PixelShuffle", nn.PixelShuffle(2), 2, 3, 2, 8)
    images("PixelUnshuffle", nn.PixelUnshuffle(2), 2, 4, 6, 3)


if __name__ == "__main__":
    torch.manual_seed(11)
    for make in (activations, products, convolutions, pools, norms, resamplings, pads):
        make()
    # Wide ones first, so that all are aligned.
    ordered = sorted(TENSORS.items(), key=lambda item: -struct.calcsize(safetensors_file.CODES[item[1][0]]))
    safetensors_file.write(HERE / "layers.safetensors", dict(ordered))

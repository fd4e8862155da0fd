#!/usr/bin/env python3
"""Makes functions_norm.safetensors beside it (see function_golden.py) with PyTorch 1.13."""
import torch
import torch.nn.functional as F

from function_golden import case, normal, numbers, write


def rms_norm(x, weight=None, dims=1):
    y = x / (x.square().mean(tuple(range(-dims, 0)), keepdim=True) + 1e-5).sqrt()
    return y if weight is None else y * weight


def layer_cases():
    x, weight, bias = normal(3, 4, 5, scale=2, shift=0.5), normal(5), normal(5)
    case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), x, weight, bias)
    case("layer_norm/plain", lambda x: F.layer_norm(x, (5,)), x)
    case("layer_norm/weight", lambda x, w: F.layer_norm(x, (5,), w), x, weight)
    case("layer_norm/epsilon", lambda x, w, b: F.layer_norm(x, (5,), w, b, 0.5), x, weight, bias)
    case("layer_norm/dims", lambda x, w, b: F.layer_norm(x, (4, 5), w, b), x, normal(4, 5), normal(4, 5))
    case("layer_norm/all", lambda x: F.layer_norm(x, (3, 4, 5)), x)
    case("layer_norm/one", lambda x, w, b: F.layer_norm(x, (1,), w, b, 1.0), normal(4, 1), normal(1), normal(1))
    case("layer_norm/vectors", lambda x, w, b: F.layer_norm(x, (24,), w, b), normal(3, 24), normal(24), normal(24))
    case("rms_norm", rms_norm, x, weight)
    case("rms_norm/plain", rms_norm, x)
    case("rms_norm/dims", lambda x, w: rms_norm(x, w, 2), x, normal(4, 5))
    added = normal(3, 4, 5)
    case("layer_norm_of_sum", lambda x, a, w, b: torch.cat([x + a, F.layer_norm(x + a, (5,), w, b)]),
         x, added, weight, bias)
    case("layer_norm_of_sum/plain", lambda x, a: torch.cat([x + a, F.layer_norm(x + a, (4, 5))]), x, added)
    case("rms_norm_of_sum", lambda x, a, w: torch.cat([x + a, rms_norm(x + a, w)]), x, added, weight)


def of_channels(function):
    """Our channels are the last dimension, PyTorch's the second."""
    return lambda x, *rest: function(x.movedim(-1, 1), *rest).movedim(1, -1)


def group_cases():
    x, weight, bias = normal(2, 3, 2, 8, scale=2, shift=0.5), normal(8), normal(8)
    case("group_norm", of_channels(lambda x, w, b: F.group_norm(x, 4, w, b)), x, weight, bias)
    case("group_norm/plain", of_channels(lambda x: F.group_norm(x, 2)), x)
    case("group_norm/one", of_channels(lambda x, w, b: F.group_norm(x, 1, w, b)), x, weight, bias)
    case("group_norm/rows", lambda x, w, b: F.group_norm(x, 2, w, b), normal(3, 6), normal(6), normal(6))
    case("group_norm/odd", of_channels(lambda x, w, b: F.group_norm(x, 3, w, b, 1e-3)),
         normal(2, 5, 9), normal(9), normal(9))
    case("instance_norm", of_channels(lambda x, w, b: F.instance_norm(x, weight=w, bias=b)), x, weight, bias)
    case("instance_norm/plain", of_channels(lambda x: F.instance_norm(x)), normal(3, 7, 2))


def batch_cases():
    x, weight, bias = normal(3, 2, 4, 5, scale=2, shift=0.5), normal(5), normal(5)
    mean, variance = numbers(0.5, -1, 0, 2, 0.25), numbers(1, 0.5, 2, 4, 0.125)
    in_training = of_channels(lambda x, w=None, b=None, e=1e-5: F.batch_norm(x, None, None, w, b, True, eps=e))
    case("batch_norm", in_training, x, weight, bias)
    case("batch_norm/plain", in_training, x)
    case("batch_norm/epsilon", lambda x, w, b: in_training(x, w, b, 0.5), x, weight, bias)
    case("batch_norm/rows", in_training, normal(6, 3), normal(3), normal(3))
    case("batch_norm/running", of_channels(lambda x, w, b: F.batch_norm(x, mean, variance, w, b)), x, weight, bias)
    case("batch_norm/residual", lambda x, w, b, r: F.relu(in_training(x, w, b) + r), x, weight, bias,
         normal(3, 2, 4, 5))


if __name__ == "__main__":
    write("functions_norm.safetensors", (layer_cases, group_cases, batch_cases))

"""What the scripts that make functions*.safetensors share: cases of tests/support/functions*.cpp with
inputs, PyTorch's result in f64, and the gradients of sum(result * weights).

"name:0", "name:1" ... are the inputs, exact in f32; "name:y" is the result; "name:d0" ... are the
gradients of the inputs that have one. The weights are those of sequence(shape, 3) in
tests/support/gradients.cpp. What is before a "/" in a name is the function.
"""
import struct
from pathlib import Path

import torch

import safetensors_file

HERE = Path(__file__).parent
DTYPES = {torch.float64: "F64", torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}
CASES = []


def case(name, function, *inputs):
    CASES.append((name, function, inputs))


def normal(*shape, scale=1.0, shift=0.0):
    return (torch.randn(shape) * scale + shift).to(torch.float32).double()


def uniform(low, high, *shape):
    return (torch.rand(shape) * (high - low) + low).to(torch.float32).double()


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def weights(shape):
    count = torch.Size(shape).numel()
    return torch.tensor([((37 * i + 3) % 101 - 50.5) / 32 for i in range(count)], dtype=torch.float64).reshape(shape)


def write(file, families):
    """Runs the functions that list cases, and writes tests/golden/`file`."""
    torch.manual_seed(7)
    for make in families:
        make()
    tensors = {}
    for name, function, inputs in CASES:
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        y = function(*leaves)
        found = {str(i): x for i, x in enumerate(inputs)} | {"y": y.detach()}
        if y.requires_grad:
            (y * weights(y.shape)).sum().backward()
            found |= {f"d{i}": x.grad for i, x in enumerate(leaves) if x.grad is not None}
        for key, tensor in found.items():
            assert f"{name}:{key}" not in tensors, name
            tensors[f"{name}:{key}"] = (DTYPES[tensor.dtype], tensor.shape, tensor.flatten().tolist())
    # Wide ones first, so that all are aligned.
    ordered = sorted(tensors.items(), key=lambda item: -struct.calcsize(safetensors_file.CODES[item[1][0]]))
    safetensors_file.write(HERE / file, dict(ordered))


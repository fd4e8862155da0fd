#!/usr/bin/env python3
"""Makes functions_integer.safetensors beside it (see function_golden.py) with PyTorch 1.13: integers and booleans.
PyTorch computes with 8 bits as we do; its scalars are whole there."""
import torch

from function_golden import case, write

A = torch.tensor([[-7, 3, 0], [5, -8, 2147483647]])
B = torch.tensor([[3, -2, 4], [-3, 5, 2]])
ROW = torch.tensor([3, -2, 5])
BYTES = torch.tensor([[250, 3, 128], [0, 255, 7]], dtype=torch.uint8)
MORE = torch.tensor([[10, 5, 2], [1, 255, 100]], dtype=torch.uint8)
WORDS = torch.tensor([[2147483647, -5, 3], [-2147483648, 7, 1]], dtype=torch.int32)
FLAGS = torch.tensor([[True, False, True], [False, False, False]])


def pair_cases():
    for name in ("add", "subtract", "multiply", "maximum", "minimum"):
        function = getattr(torch, name)
        case(name + "/integers", function, A, ROW)
        case(name + "/bytes", function, BYTES, MORE)
        case(name + "/words", function, WORDS, WORDS.flip(1))
    case("pow/integers", torch.pow, A.clamp(max=9), B.abs())
    case("pow/bytes", lambda x: x.pow(3), BYTES)
    case("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor"), A, B)
    case("floor_divide/row", lambda a, b: torch.div(a, b, rounding_mode="floor"), A, ROW)
    case("floor_divide/bytes", lambda a, b: torch.div(a, b, rounding_mode="floor"), BYTES, MORE)
    case("floor_divide/constant", lambda a: torch.div(a, -3, rounding_mode="floor"), A)
    case("remainder/bytes", torch.remainder, BYTES, MORE)
    case("remainder/constant", lambda a: torch.remainder(a, -3), A)
    case("fmod/constant", lambda a: torch.fmod(a, 3), A)


def constant_cases():
    case("add/constant", lambda x: x + 7, A)
    case("subtract/from", lambda x: 7 - x, BYTES)
    case("multiply/constant", lambda x: x * 3, WORDS)
    case("affine/integers", lambda x: x * 3 - 2, A)
    case("square/integers", torch.square, A)
    case("negative/bytes", torch.neg, BYTES)
    case("abs/words", torch.abs, WORDS)
    case("less/constant", lambda x: x < 3, A)
    case("equal/constant", lambda x: x == 255, BYTES)


def reduce_cases():
    for name in ("sum", "prod"):
        for kind, x in (("integers", A), ("bytes", BYTES), ("words", WORDS), ("flags", FLAGS)):
            case(f"{name}/{kind}", lambda x, n=name: getattr(x, n)(1), x)
    for ours, theirs in (("max", torch.amax), ("min", torch.amin)):
        for kind, x in (("integers", A), ("bytes", BYTES), ("words", WORDS)):
            case(f"{ours}/{kind}", lambda x, f=theirs: f(x, 0), x)
    case("max_with_indices/bytes", lambda x: x.max(1).values, BYTES)
    case("argmin/bytes", lambda x: x.argmin(0), BYTES)
    for name in ("cumsum", "cumprod"):
        for kind, x in (("integers", A), ("bytes", BYTES), ("words", WORDS), ("flags", FLAGS)):
            case(f"{name}/{kind}", lambda x, n=name: getattr(x, n)(1), x)


if __name__ == "__main__":
    write("functions_integer.safetensors", (pair_cases, constant_cases, reduce_cases))

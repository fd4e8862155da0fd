#!/usr/bin/env python3
"""Makes functions.safetensors beside it (see function_golden.py) with PyTorch 1.13."""
import torch
import torch.nn.functional as F

from function_golden import case, normal, numbers, uniform, write

INF, NAN = float("inf"), float("nan")


def unary_cases():
    plain = normal(3, 5, scale=2)
    positive = uniform(0.2, 4, 3, 5)
    inner = uniform(-0.9, 0.9, 3, 5)
    for name in ("exp", "exp2", "expm1", "erf", "erfc", "sin", "cos", "atan", "sinh", "cosh", "abs", "sign", "floor",
                 "ceil", "round", "trunc", "frac", "square", "relu", "sigmoid", "tanh", "negative"):
        case(name, getattr(torch, name), plain)
    for name in ("log", "log2", "sqrt", "rsqrt"):
        case(name, getattr(torch, name), positive)
    case("log1p", torch.log1p, uniform(-0.8, 3, 7))
    for name in ("tan", "asin", "acos"):
        case(name, getattr(torch, name), inner)
    case("expm1/small", torch.expm1, uniform(-1e-5, 1e-5, 5))
    case("log1p/small", torch.log1p, uniform(-1e-5, 1e-5, 5))
    case("sin/large", torch.sin, normal(5, scale=1e4))
    case("round/halves", torch.round, numbers(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5))
    case("sign/integers", torch.sign, torch.tensor([-3, 0, 7]))
    case("abs/integers", torch.abs, torch.tensor([-3, 0, 7]))
    case("negative/integers", torch.neg, torch.tensor([-3, 0, 7]))
    case("clamp", lambda x: x.clamp(-1.25, 0.5), plain)
    case("clamp/one_side", lambda x: x.clamp(min=0.25), plain)
    case("clamp/integers", lambda x: x.clamp(-2, 5), torch.tensor([-3, 0, 7]))
    case("clamp/ends", lambda x: x.clamp(-1, 1), numbers(-2, -1, 0, 1, 2))
    case("affine", lambda x: -2.5 * x + 1, plain)
    case("reciprocal", lambda x: 3 / x, positive)
    case("pow/constant", lambda x: x.pow(-1.5), positive)


def activation_cases():
    x = normal(3, 5, scale=2.5)
    case("relu6", F.relu6, x)
    case("gelu", F.gelu, x)
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x)
    for name in ("silu", "mish", "softsign", "logsigmoid", "hardswish", "hardtanh", "softplus", "elu",
                 "selu", "leaky_relu"):
        case(name, getattr(F, name), x)
    # The gradient of PyTorch's own has a sixth of f32 in it.
    case("hardsigmoid", lambda x: (x / 6 + 0.5).clamp(0, 1), x)
    case("logsigmoid/tails", F.logsigmoid, numbers(-60, -20, 20, 60))
    case("mish/tails", F.mish, numbers(-30, -10, 25, 60))
    case("silu/tails", F.silu, numbers(-60, -20, 20, 60))
    case("hardtanh/bounds", lambda x: F.hardtanh(x, -2, 0.5), x)
    case("softplus/beta", lambda x: F.softplus(x, 2, 3), x)
    case("elu/alpha", lambda x: F.elu(x, 0.7), x)
    case("elu/zero", F.elu, numbers(-1, 0, 1))
    case("leaky_relu/slope", lambda x: F.leaky_relu(x, 0.3), x)
    # Our channels are the last dimension, PyTorch's the second.
    case("prelu", lambda x, w: F.prelu(x, w), x, uniform(0.1, 0.5, 5))
    case("prelu/one", lambda x, w: F.prelu(x, w), x, uniform(0.1, 0.5, 1))
    case("glu", lambda x: F.glu(x, -1), normal(3, 6))
    case("glu/first", lambda x: F.glu(x, 0), normal(4, 3))


def binary_cases():
    a, b, row = normal(3, 5), normal(3, 5), normal(5)
    column, nonzero = normal(3, 1), uniform(0.3, 1.7, 5)
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "hypot"):
        case(name, getattr(torch, name), a, b)
        case(name + "/broadcast", getattr(torch, name), column, row)
    case("divide", torch.divide, a, nonzero)
    case("pow", torch.pow, uniform(0.2, 3, 3, 5), row)
    case("atan2", torch.atan2, a, b)
    case("atan2/broadcast", torch.atan2, column, row)
    case("fmod", torch.fmod, normal(3, 5, scale=4), nonzero)
    case("remainder", torch.remainder, normal(3, 5, scale=4), nonzero)
    case("remainder/negative", torch.remainder, normal(3, 5, scale=4), -nonzero)
    integers = torch.tensor([-7, -3, 0, 5, 8]), torch.tensor([3, -2, 4, -3, 5])
    case("fmod/integers", torch.fmod, *integers)
    case("remainder/integers", torch.remainder, *integers)
    case("lerp", torch.lerp, a, b, uniform(0, 1, 3, 5))
    case("lerp/constant", lambda a, b: torch.lerp(a, b, 0.3), a, b)
    case("hypot/large", torch.hypot, numbers(3e30, -5e35, 0), numbers(4e30, 1e30, 2))


def logic_cases():
    condition = torch.tensor([[True, False, True, True, False], [False, False, True, False, True],
                              [True, True, False, False, True]])
    case("where", torch.where, condition, normal(3, 5), normal(3, 5))
    case("where/broadcast", torch.where, condition[0], normal(3, 1), normal(2, 1, 1))
    case("where/constant", lambda c, a: torch.where(c, a, torch.tensor(0.5, dtype=torch.float64)), condition, normal(3, 5))
    case("where/integers", torch.where, condition[0], torch.arange(5), torch.arange(5) * 10)
    odd = numbers(1, NAN, INF, -INF, 0, -2.5)
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        case(name, getattr(torch, name), odd)
    case("isnan/integers", torch.isnan, torch.arange(3))
    case("isfinite/integers", torch.isfinite, torch.arange(3))
    other = numbers(0, 0, 1, 0, 0, 3)
    for name in ("logical_and", "logical_or", "logical_xor"):
        case(name, getattr(torch, name), odd, other)
        case(name + "/broadcast", getattr(torch, name), condition, torch.tensor([[0], [2], [0]]))
    a, b = numbers(1, 2, 3, NAN), numbers(2, 2, 2, 2)
    for ours, theirs in (("equal", torch.eq), ("not_equal", torch.ne), ("less", torch.lt), ("less_equal", torch.le),
                         ("greater", torch.gt), ("greater_equal", torch.ge)):
        case(ours, theirs, a, b)


def reduce_cases():
    x = normal(3, 4, 5)
    for name in ("sum", "mean", "logsumexp"):
        function = getattr(torch, name)
        case(name, lambda x, f=function: f(x, dim=(0, 1, 2)), x)
        case(name + "/dims", lambda x, f=function: f(x, dim=(0, 2), keepdim=True), x)
    case("logsumexp/infinite", lambda x: x.logsumexp(1), torch.tensor([[-INF, 1, 2], [-INF, -3, -INF]]).double())
    for ours, theirs in (("max", torch.amax), ("min", torch.amin)):
        case(ours, lambda x, f=theirs: f(x, (0, 1, 2)), x)
        case(ours + "/dims", lambda x, f=theirs: f(x, (1,)), x)
    case("prod", lambda x: x.prod(), normal(7))
    case("prod/dim", lambda x: x.prod(1, keepdim=True), x)
    case("prod/dims", lambda x: x.prod(2).prod(0), x)
    case("prod/zero", lambda x: x.prod(1), torch.tensor([[2, 0, 3, 0.5], [0, 1, 0, 4], [1, 2, 3, 4]]).double())
    case("var", lambda x: x.var(), x)
    case("var/dims", lambda x: x.var((0, 2), unbiased=False, keepdim=True), x)
    case("stddev", lambda x: x.std(), x)
    case("stddev/dims", lambda x: x.std((1,)), x)
    case("norm", lambda x: x.norm(), x)
    case("norm/dims", lambda x: torch.linalg.vector_norm(x, 2, (0, 2)), x)
    case("norm/one", lambda x: torch.linalg.vector_norm(x, 1, (1,)), x)
    case("norm/infinity", lambda x: torch.linalg.vector_norm(x, INF, (1,)), x)
    case("norm/three", lambda x: torch.linalg.vector_norm(x, 3, (1,), keepdim=True), x)
    case("norm/zero", lambda x: torch.linalg.vector_norm(x.detach(), 0, (1,)), torch.tensor([[0, 1, 2], [0, 0, -3.]]).double())
    flags = torch.tensor([[0, 0, 1.], [0, 0, 0], [1, 2, NAN]]).double()
    case("any", lambda x: x.any(), flags)
    case("any/dim", lambda x: x.any(1), flags)
    case("all", lambda x: x.all(), flags)
    case("all/dim", lambda x: x.all(1, keepdim=True), flags)
    case("count_nonzero", lambda x: x.count_nonzero(), flags)
    case("count_nonzero/dim", lambda x: x.count_nonzero(0), flags)
    ties = torch.tensor([[2, 5, 5, 1], [NAN, 3, NAN, 9], [-1, -1, -1, -1]]).double()
    for ours, theirs in (("max_with_indices", torch.max), ("min_with_indices", torch.min)):
        case(ours, lambda x, f=theirs: f(x, 1).values, x)
        case(ours + "/keepdim", lambda x, f=theirs: f(x, 0, keepdim=True).values, x)
        case(ours + "/ties", lambda x, f=theirs: f(x, 1).values, ties)
    for name in ("argmax", "argmin"):
        case(name, lambda x, f=getattr(torch, name): f(x.detach()), x)
        case(name + "/dim", lambda x, f=getattr(torch, name): f(x.detach(), 1), x)
        case(name + "/integers", lambda x, f=getattr(torch, name): f(x, 1), torch.tensor([[3, -7, 9], [4, 8, -8]]))
        # PyTorch 1.13 does not say which of equal ones it takes; newer ones take the first, as for NaN.
        case(name + "/nan", lambda x, f=getattr(torch, name): f(x.detach(), 1), torch.tensor([[1, NAN, 3], [NAN, 2, NAN]]).double())
    case("cumsum", lambda x: x.cumsum(1), x)
    case("cumsum/last", lambda x: x.cumsum(-1), x)
    case("cumsum/reverse", lambda x: x.flip(0).cumsum(0).flip(0), x)
    case("cumsum/exclusive", lambda x: x.cumsum(1) - x, x)
    case("cumprod", lambda x: x.cumprod(1), x)
    case("cumprod/zero", lambda x: x.cumprod(-1), torch.tensor([[2, 0, 3, 0.5], [0, 1, 0, 4], [1, 2, 3, 4]]).double())
    case("cumprod/reverse", lambda x: x.flip(2).cumprod(2).flip(2), x)

    def recurrence(a, b):
        y = [b[:, 0]]
        for i in range(1, b.shape[1]):
            y.append(a[:, i] * y[-1] + b[:, i])
        return torch.stack(y, 1)
    case("linear_recurrence", recurrence, normal(2, 6, 3), normal(2, 6, 3))
    case("sum_to", lambda x: x.sum((0, 1)).reshape(1, 5), x)
    case("softmax", lambda x: x.softmax(-1), x)
    case("log_softmax", lambda x: x.log_softmax(1), x)


def shape_cases():
    x = normal(3, 4, 5)
    case("reshape", lambda x: x.reshape(6, 10), x)
    case("flatten", lambda x: x.permute(0, 3, 1, 2).flatten(1), normal(2, 3, 2, 3))
    case("transpose", lambda x: x.transpose(0, 2), x)
    case("permute", lambda x: x.permute(1, 2, 0), x)
    case("slice", lambda x: x[:, 1:3], x)
    case("concatenate", lambda a, b: torch.cat([a, b], 1), normal(2, 3), normal(2, 4))
    case("broadcast_to", lambda x: x.expand(2, 3, 5), normal(3, 1))
    case("matmul", torch.matmul, normal(3, 5), normal(5, 7))
    case("linear", F.linear, normal(3, 5), normal(7, 5), normal(7))


def creation_cases():
    f64 = torch.float64
    case("arange", lambda: torch.arange(-1, 2.3, 0.3, dtype=f64))
    case("arange/integers", lambda: torch.arange(7, -4, -2))
    case("linspace", lambda: torch.linspace(-3, 11, 8, dtype=f64))
    case("eye", lambda: torch.eye(3, dtype=f64))
    case("eye/wide", lambda: torch.eye(2, 4, dtype=f64))
    case("one_hot", lambda x: F.one_hot(x, 5), torch.tensor([[0, 3], [4, 1]]))


def shrink_cases():
    x, ends = normal(3, 5, scale=2), numbers(-2, -1, -0.5, 0, 0.5, 1, 2)
    case("celu", F.celu, x)
    # An alpha whose inverse f32 holds, as the gradient of PyTorch's own has that in it.
    case("celu/alpha", lambda x: F.celu(x, 0.5), x)
    case("celu/zero", lambda x: F.celu(x, 2), ends)
    case("threshold", lambda x: F.threshold(x, 0.25, -3), x)
    case("threshold/limit", lambda x: F.threshold(x, 1, 7), ends)
    case("hardshrink", F.hardshrink, x)
    case("hardshrink/ends", lambda x: F.hardshrink(x, 1), ends)
    case("softshrink", F.softshrink, x)
    case("softshrink/ends", lambda x: F.softshrink(x, 1), ends)
    case("tanhshrink", F.tanhshrink, x)


if __name__ == "__main__":
    write("functions.safetensors",
          (unary_cases, activation_cases, binary_cases, logic_cases, reduce_cases, shape_cases, creation_cases,
           shrink_cases))

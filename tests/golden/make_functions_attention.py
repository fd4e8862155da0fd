#!/usr/bin/env python3
"""Makes functions_attention.safetensors beside it (see function_golden.py) with PyTorch 1.13."""
import math

import torch

from function_golden import case, normal, write

INF = float("inf")


def attention(q, k, v, seen=None, added=None, scale=None):
    """Of (N, L, H, D), as ours; rows that see nothing are 0."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) * (scale or 1 / math.sqrt(q.shape[-1]))
    if added is not None:
        scores = scores + added
    if seen is not None:
        scores = scores.masked_fill(~seen, -1e300)
    weights = scores.softmax(-1)
    if seen is not None:
        weights = weights * seen
    return (weights @ v).transpose(1, 2)


def below(lengths, keys):
    return (torch.arange(keys) < lengths[:, None])[:, None, None]


def triangle(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


def separate_cases():
    name = "scaled_dot_product_attention"
    q, k, v = normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4)
    seen = torch.rand(2, 1, 3, 5) < 0.6
    seen[1, 0, 2] = False
    added = normal(1, 2, 3, 5)
    added[0, 1, 0, 2:] = -INF
    lengths = torch.tensor([5, 2])
    case(name, attention, q, k, v)
    case(f"{name}/scale", lambda q, k, v: attention(q, k, v, scale=0.75), q, k, v)
    case(f"{name}/mask", lambda q, k, v, seen: attention(q, k, v, seen), q, k, v, seen)
    case(f"{name}/rows_of_mask", lambda q, k, v, seen: attention(q, k, v, seen), q, k, v, seen[0, 0])
    case(f"{name}/added", lambda q, k, v, added: attention(q, k, v, None, added.detach()), q, k, v, added)
    case(f"{name}/added_with_gradient", lambda q, k, v, added: attention(q, k, v, None, added), q, k, v,
         normal(2, 1, 1, 5))
    case(f"{name}/lengths", lambda q, k, v, lengths: attention(q, k, v, below(lengths, 5)), q, k, v, lengths)
    case(f"{name}/no_keys", lambda q, k, v, lengths: attention(q, k, v, below(lengths, 5)), q, k, v,
         torch.tensor([0, 1]))
    case(f"{name}/causal", lambda q, k, v: attention(q, k, v, triangle(5)), normal(2, 5, 2, 4), k, v)
    case(f"{name}/one", attention, normal(1, 1, 1, 1), normal(1, 1, 1, 1), normal(1, 1, 1, 1))
    case(f"{name}/all", lambda q, k, v, added, lengths: attention(
        q, k, v, triangle(5) & below(lengths, 5), added.detach()), normal(2, 5, 2, 4), k, v, normal(2, 2, 5, 5),
        torch.tensor([3, 5]))


def packed_cases():
    name = "scaled_dot_product_attention_packed"
    qkv = normal(2, 5, 3, 2, 4)
    seen = torch.rand(2, 2, 1, 5) < 0.6

    def packed(qkv, seen=None):
        return attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], seen)
    case(name, packed, qkv)
    case(f"{name}/causal", lambda qkv: packed(qkv, triangle(5)), qkv)
    case(f"{name}/mask", packed, qkv, seen)


if __name__ == "__main__":
    write("functions_attention.safetensors", (separate_cases, packed_cases))

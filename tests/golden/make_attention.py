#!/usr/bin/env python3
"""Makes attention.safetensors, the state_dict of PyTorch 1.13's MultiheadAttention, and
attention_io.safetensors: query (2, 3, 8), key and value (2, 5, 8), the result of `cross` attention, and
`self`, that of the key attending to itself, each to those before it."""
from pathlib import Path

import torch
from torch import nn

import safetensors_file

HERE = Path(__file__).parent


def write(name, tensors):
    safetensors_file.write(HERE / f"{name}.safetensors", {
        key: ("F32", tensor.shape, tensor.detach().flatten().tolist()) for key, tensor in tensors.items()})


torch.manual_seed(3)
layer = nn.MultiheadAttention(8, 2, batch_first=True)
nn.init.normal_(layer.in_proj_bias)
nn.init.normal_(layer.out_proj.bias)
write("attention", layer.state_dict())
query, key, value = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
write("attention_io", {"query": query, "key": key, "value": value, "cross": layer(query, key, value)[0],
                       "self": layer(key, key, key, attn_mask=hidden)[0]})

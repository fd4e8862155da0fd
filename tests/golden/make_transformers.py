#!/usr/bin/env python3
"""Makes transformers.safetensors beside it: small transformers of PyTorch, their inputs and results.

tests/golden/make_transformers.py   (made with PyTorch 1.13)

For each model, "model.weight.NAME" is its state, "model.x" (and "model.memory", "model.mask",
"model.lengths") what it is given, "model.y" the result, and "model.dx" the gradient of
sum(y * weights) with weights(i) = ((37 i + 3) mod 101 - 50.5) / 32. GPT-2 and ViT are written out here,
with the names and layouts of the published weights.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import safetensors_file
from function_golden import weights

HERE = Path(__file__).parent
DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
TENSORS = {}


def save(name, model, result, **given):
    leaf = given["x"]
    if leaf.is_floating_point():
        leaf.requires_grad_(True)
    y = result(**given)
    (y * weights(y.shape).float()).sum().backward()
    found = {f"weight.{key}": value for key, value in model.state_dict().items()} | given | {"y": y}
    if leaf.grad is not None:
        found["dx"] = leaf.grad
    for key, value in found.items():
        TENSORS[f"{name}.{key}"] = (DTYPES[value.dtype], value.shape, value.detach().flatten().tolist())


def randomise(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0, 0.3)
    return model.eval()


class Conv1D(nn.Module):
    """A linear layer with the weight as (in, out), as GPT-2 was published."""
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(qkv, heads, causal):
    n, t, features = qkv.shape
    q, k, v = qkv.view(n, t, 3, heads, features // 3 // heads).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, features // 3)


class GptBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Conv1D(features, 3 * features), Conv1D(features, features)
        self.mlp.c_fc, self.mlp.c_proj = Conv1D(features, 4 * features), Conv1D(4 * features, features)

    def forward(self, x):
        x = x + self.attn.c_proj(attend(self.attn.c_attn(self.ln_1(x)), self.heads, True))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, context, features, heads, depth):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, features), nn.Embedding(context, features)
        self.h = nn.Sequential(*(GptBlock(features, heads) for _ in range(depth)))
        self.ln_f = nn.LayerNorm(features)

    def forward(self, x):
        return self.ln_f(self.h(self.wte(x) + self.wpe.weight[:x.shape[1]])) @ self.wte.weight.T


class VitBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features, 1e-6), nn.LayerNorm(features, 1e-6)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x):
        x = x + self.attn.proj(attend(self.attn.qkv(self.norm1(x)), self.heads, False))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, image, patch, features, heads, depth, classes):
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, features))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + (image // patch) ** 2, features))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, features, patch, patch)
        self.blocks = nn.Sequential(*(VitBlock(features, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(features, 1e-6), nn.Linear(features, classes)

    def forward(self, x):
        patches = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def layers():
    options = {"dropout": 0.0, "batch_first": True}
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    attention = randomise(nn.MultiheadAttention(12, 3, **options))
    save("attention", attention, lambda x, memory: attention(x, memory, memory, need_weights=False)[0],
         x=x.clone(), memory=memory)
    lengths = torch.tensor([3, 5])
    padded = torch.arange(5)[None] >= lengths[:, None]
    save("padded", attention,
         lambda x, lengths: attention(x, x, x, key_padding_mask=padded, need_weights=False)[0],
         x=x.clone(), lengths=lengths)
    later = torch.ones(5, 5).triu(1).bool()
    for name, first, activation in (("encoder", False, F.relu), ("encoder_first", True, F.gelu)):
        encoder = randomise(nn.TransformerEncoderLayer(12, 3, 20, activation=activation, norm_first=first, **options))
        # Its fast path has no gradient; in training mode without dropout it computes the same.
        encoder.train()
        save(name, encoder, lambda x, encoder=encoder: encoder(x, src_mask=later), x=x.clone())
    for name, first in (("decoder", False), ("decoder_first", True)):
        decoder = randomise(nn.TransformerDecoderLayer(12, 3, 20, norm_first=first, **options))
        save(name, decoder, lambda x, memory, decoder=decoder: decoder(x, memory, tgt_mask=later), x=x.clone(),
             memory=memory)


def models():
    gpt2 = randomise(Gpt2(11, 6, 8, 2, 2))
    save("gpt2", gpt2, lambda x: gpt2(x), x=torch.randint(0, 11, (2, 5)))
    vit = randomise(Vit(8, 4, 6, 2, 2, 3))
    save("vit", vit, lambda x: vit(x), x=torch.randn(2, 3, 8, 8))


if __name__ == "__main__":
    torch.manual_seed(3)
    layers()
    models()
    safetensors_file.write(HERE / "transformers.safetensors",
                           dict(sorted(TENSORS.items(), key=lambda item: item[1][0] == "BOOL")))

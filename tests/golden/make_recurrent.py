#!/usr/bin/env python3
"""Makes recurrent.safetensors beside it: PyTorch's recurrent layers, their inputs, results and gradients.

tests/golden/make_recurrent.py   (made with PyTorch 1.13)

For each case, "case.weight.NAME" is the layer's state, exact in f32; "case.x", "case.h0", "case.c0" and
"case.lengths" what it is given; "case.y", "case.h" and "case.c" the results in f64; "case.d.NAME", "case.dx",
"case.dh0" and "case.dc0" the gradients of the sum of sum(y * weights), sum(h * weights) and sum(c * weights),
with weights(i) = ((37 i + 3) mod 101 - 50.5) / 32.
"""
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import safetensors_file
from function_golden import normal, weights

HERE = Path(__file__).parent
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
INPUTS, HIDDEN = 3, 5
TENSORS = {}


def save(name, model, steps, lengths=None, state=True):
    model = model.double()
    samples = 3
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(normal(*parameter.shape, scale=0.5))
    x = normal(samples, steps, INPUTS).requires_grad_()
    rows = model.num_layers * (2 if model.bidirectional else 1)
    first = [normal(rows, samples, HIDDEN).requires_grad_() for _ in range(1 + isinstance(model, nn.LSTM))]
    given = x if lengths is None else pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=False)
    y, last = model(given, None if not state else tuple(first) if len(first) == 2 else first[0])
    if lengths is not None:
        y = pad_packed_sequence(y, True, total_length=steps)[0]
    results = dict(zip("yhc", (y, *(last if len(first) == 2 else (last,)))))
    sum((value * weights(value.shape)).sum() for value in results.values()).backward()
    found = {"x": x.float(), "dx": x.grad} | results
    for key, value in zip(("h0", "c0"), first if state else ()):
        found |= {key: value.float(), f"d{key}": value.grad}
    if lengths is not None:
        found["lengths"] = torch.tensor(lengths)
    for key, parameter in model.named_parameters():
        found |= {f"weight.{key}": parameter.float(), f"d.{key}": parameter.grad}
    for key, value in found.items():
        TENSORS[f"{name}.{key}"] = (DTYPES[value.dtype], value.shape, value.detach().flatten().tolist())


def cases():
    for name, kind, options in (("rnn", nn.RNN, {}), ("rnn_relu", nn.RNN, {"nonlinearity": "relu"}),
                                ("lstm", nn.LSTM, {}), ("gru", nn.GRU, {})):
        def layer(kind=kind, options=options, **more):
            return kind(INPUTS, HIDDEN, batch_first=True, **options, **more)
        save(f"{name}.deep", layer(num_layers=2, bidirectional=True), steps=4)
        if name != "rnn_relu":
            save(f"{name}.lengths", layer(num_layers=2, bidirectional=True), steps=5, lengths=[3, 5, 1])
            save(f"{name}.no_bias", layer(num_layers=2, bias=False), steps=3, state=False)
            save(f"{name}.one_step", layer(), steps=1)


if __name__ == "__main__":
    torch.manual_seed(9)
    cases()
    safetensors_file.write(HERE / "recurrent.safetensors",
                           dict(sorted(TENSORS.items(), key=lambda item: item[1][0] == "F32")))

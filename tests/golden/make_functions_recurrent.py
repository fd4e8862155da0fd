#!/usr/bin/env python3
"""Makes functions_recurrent.safetensors beside it (see function_golden.py) with PyTorch 1.13: the outputs of
one recurrent layer in one direction, with the last state behind them."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from function_golden import case, normal, write

SAMPLES, STEPS, INPUTS, HIDDEN = 3, 4, 3, 2
NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def turned(x, lengths):
    """Each sample's steps in reverse order, what is beyond its length left in its place."""
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths.tolist())])


def layer(kind, biases=True, lengths=False, reverse=False, **options):
    """The function of x, the states, the weights, and lengths."""
    states = 2 if kind is nn.LSTM else 1

    def call(x, *rest):
        model = kind(INPUTS, HIDDEN, bias=biases, batch_first=True, **options)
        state, weights = [s[None] for s in rest[:states]], rest[states:states + (4 if biases else 2)]
        for name, weight in zip(NAMES, weights):
            delattr(model, name)
            setattr(model, name, weight)  # a plain tensor, so that gradients reach it
        count = rest[-1] if lengths else torch.full((len(x),), x.shape[1])
        given = pack_padded_sequence(turned(x, count) if reverse else x, count, True, enforce_sorted=False)
        output, last = model(given, tuple(state) if states == 2 else state[0])
        output = pad_packed_sequence(output, True, total_length=x.shape[1])[0]
        last = [s[0][:, None] for s in (last if states == 2 else (last,))]
        return torch.cat([turned(output, count) if reverse else output, *last], 1)
    return call


def inputs(kind, biases=True, lengths=False):
    gates = {nn.RNN: 1, nn.LSTM: 4, nn.GRU: 3}[kind] * HIDDEN
    made = [normal(SAMPLES, STEPS, INPUTS)]
    made += [normal(SAMPLES, HIDDEN) for _ in range(2 if kind is nn.LSTM else 1)]
    made += [normal(gates, INPUTS), normal(gates, HIDDEN)]
    if biases:
        made += [normal(gates), normal(gates)]
    return made + [torch.tensor([2, 4, 1])] * lengths


def recurrent_cases():
    case("rnn", layer(nn.RNN), *inputs(nn.RNN))
    case("rnn/relu", layer(nn.RNN, nonlinearity="relu"), *inputs(nn.RNN))
    case("rnn/lengths_reverse", layer(nn.RNN, lengths=True, reverse=True), *inputs(nn.RNN, lengths=True))
    for name, kind in (("lstm", nn.LSTM), ("gru", nn.GRU)):
        case(name, layer(kind), *inputs(kind))
        case(f"{name}/lengths", layer(kind, lengths=True), *inputs(kind, lengths=True))
        case(f"{name}/lengths_reverse", layer(kind, lengths=True, reverse=True), *inputs(kind, lengths=True))
        case(f"{name}/no_bias", layer(kind, biases=False), *inputs(kind, biases=False))


if __name__ == "__main__":
    write("functions_recurrent.safetensors", (recurrent_cases,))

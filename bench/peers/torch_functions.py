#!/usr/bin/env python3
"""PyTorch's side of bench/functions: the same functions under the same names, measured the same way.

    torch_functions.py [--only TEXT] [--device cpu|cuda] [--dtype f32|bf16] [--batch N] [--seconds S]

One JSON line is printed for each: {"function", "forward_us", "both_us"}, the second with the backward
pass. Functions of images run in the usual order and in channels-last, and the better time counts.
Gradients that are views (those of a sum, say, or of a permutation) are written out, as ours are. TF32 is off.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch.nn import functional as F


def cases(n, constant, labels):
    """[(name, shapes, function, {"learns", "images", "module"})]; shapes of images are (N, C, H, W).

    A module's parameters are inputs too, behind those of the shapes.
    """
    found = []

    def add(name, shapes, function, **more):
        found.append((name, shapes, function, more))

    def convolution(size, channels, out, kernel, stride):
        add(f"conv2d/{channels}-{out}@{size} {kernel}x{kernel} s{stride}",
            [(n, channels, size, size), (out, channels, kernel, kernel)],
            lambda x, w: F.conv2d(x, w, None, stride, 0 if kernel == 16 else kernel // 2), images=True)

    convolution(32, 3, 64, 3, 1)
    convolution(32, 64, 64, 3, 1)
    convolution(32, 64, 128, 3, 2)
    convolution(32, 64, 128, 1, 2)
    convolution(16, 128, 128, 3, 1)
    convolution(8, 256, 256, 3, 1)
    convolution(4, 512, 512, 3, 1)
    convolution(224, 3, 192, 16, 16)
    add("conv_transpose2d", [(n, 64, 16, 16), (64, 64, 2, 2)], lambda x, w: F.conv_transpose2d(x, w, None, 2),
        images=True)
    add("conv_transpose1d", [(n, 64, 256), (64, 64, 4)], lambda x, w: F.conv_transpose1d(x, w, None, 2, 1))
    volume = (n, 64, 4, 16, 16)
    add("conv3d", [volume, (64, 64, 3, 3, 3)], lambda x, w: F.conv3d(x, w, None, 1, 1))
    add("conv_transpose3d", [volume, (64, 64, 2, 2, 2)], lambda x, w: F.conv_transpose3d(x, w, None, 2))
    add("conv1d", [(n, 64, 256), (64, 64, 3)], lambda x, w: F.conv1d(x, w, None, 1, 1))

    for inner, out in ((192, 576), (192, 768), (768, 192)):
        add(f"linear/{inner}-{out}", [(n, 197, inner), (out, inner), (out,)], F.linear)
    add("linear/512-10", [(n, 512), (10, 512), (10,)], F.linear)
    add("matmul/scores", [(n, 3, 197, 64), (n, 3, 64, 197)], torch.matmul)
    add("einsum", [(n, 197, 192), (3, 64, 192)],
        lambda x, w: torch.einsum("bnd,hed->bhne", x, w).contiguous())
    if hasattr(F, "scaled_dot_product_attention"):
        attention = F.scaled_dot_product_attention
    else:
        def attention(q, k, v):
            return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
    add("attention", [(n, 3, 197, 64)] * 3, attention)
    # Modules, so that their weights lie packed as cuDNN wants them.
    for units in (128, 512, 1024):
        for kind in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
            module = kind(units // 2, units, batch_first=True)
            add(f"{kind.__name__.lower()}/{units}", [(n, 32, units // 2)],
                lambda x, *_, module=module: module(x)[0], module=module)

    for channels in (64, 512):
        size = 2048 // channels
        mean, var = constant(channels) * 0, constant(channels) * 0 + 1
        add(f"batch_norm/{channels}@{size}", [(n, channels, size, size), (channels,), (channels,)],
            lambda x, w, b, mean=mean, var=var: F.batch_norm(x, mean, var, w, b, True), images=True)
    tokens, image = (n, 197, 192), (n, 64, 32, 32)
    add("layer_norm", [tokens, (192,), (192,)], lambda x, w, b: F.layer_norm(x, (192,), w, b))
    if hasattr(F, "rms_norm"):
        add("rms_norm", [tokens, (192,)], lambda x, w: F.rms_norm(x, (192,), w, 1e-5))
    else:
        add("rms_norm", [tokens, (192,)],
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w)
    add("group_norm", [image, (64,), (64,)], lambda x, w, b: F.group_norm(x, 32, w, b), images=True)
    add("instance_norm", [image, (64,), (64,)], lambda x, w, b: F.instance_norm(x, None, None, w, b), images=True)
    add("softmax", [(n, 3, 197, 197)], lambda x: torch.softmax(x, -1))
    add("log_softmax", [(n, 1000)], lambda x: torch.log_softmax(x, -1))

    def unary(name, function, **more):
        add(name, [image], function, images=True, **more)

    unary("relu", torch.relu)
    unary("leaky_relu", F.leaky_relu)
    unary("gelu", F.gelu)
    unary("silu", F.silu)
    unary("mish", F.mish)
    unary("elu", F.elu)
    unary("softplus", F.softplus)
    unary("hardswish", F.hardswish)
    unary("sigmoid", torch.sigmoid)
    unary("tanh", torch.tanh)
    unary("exp", torch.exp)
    unary("log1p of square", lambda x: torch.log1p(torch.square(x)))
    unary("sin", torch.sin)
    unary("erf", torch.erf)
    unary("log of square", lambda x: torch.log(torch.square(x)))
    unary("sqrt of square", lambda x: torch.sqrt(torch.square(x)))
    unary("cos", torch.cos)
    unary("tan", torch.tan)
    unary("atan", torch.atan)
    unary("sinh", torch.sinh)
    unary("expm1", torch.expm1)
    unary("erfc", torch.erfc)
    unary("selu", F.selu)
    unary("logsigmoid", F.logsigmoid)
    unary("hardsigmoid", F.hardsigmoid)
    unary("abs", torch.abs)
    unary("clamp", lambda x: torch.clamp(x, -0.5, 0.5))
    unary("pow", lambda x: torch.pow(x, 3))
    unary("floor", torch.floor)
    unary("dropout", lambda x: F.dropout(x, 0.1))
    add("add", [image, image], torch.add, images=True)
    add("multiply", [image, image], torch.mul, images=True)
    add("divide", [image, image], torch.div, images=True)
    add("maximum", [image, image], torch.maximum, images=True)
    add("atan2", [image, image], torch.atan2, images=True)
    add("hypot", [image, image], torch.hypot, images=True)
    add("fmod", [image, image], torch.fmod, images=True)
    add("remainder", [image, image], torch.remainder, images=True)
    add("add of channels", [image, (1, 64, 1, 1)], torch.add, images=True)
    add("less", [image, image], torch.less, images=True, learns=False)
    chosen = constant(*image) < 0
    chosen_last = chosen.contiguous(memory_format=torch.channels_last)

    def mask(x):
        return chosen if x.is_contiguous() else chosen_last
    add("where", [image, image], lambda x, y: torch.where(mask(x), x, y), images=True)
    unary("masked_fill", lambda x: x.masked_fill(mask(x), 1))

    unary("sum", torch.sum)
    unary("mean of pixels", lambda x: x.mean((2, 3)))
    unary("sum to channels", lambda x: x.sum((0, 2, 3)))
    # Along the channels, which are ours' last dimension: the last here too.
    last = (n, 32, 32, 64)
    add("var", [last], lambda x: x.var(-1))
    unary("norm", torch.norm)
    add("logsumexp", [last], lambda x: x.logsumexp(-1))
    add("max", [last], lambda x: x.max(-1)[0])
    add("argmax", [tokens], lambda x: x.argmax(-1), learns=False)
    add("cumprod", [tokens], lambda x: x.cumprod(1))
    add("cumsum", [tokens], lambda x: x.cumsum(1))
    add("sort", [tokens], lambda x: x.sort(-1)[0])
    add("topk", [tokens], lambda x: x.topk(5)[0])

    add("permute", [tokens], lambda x: x.permute(0, 2, 1).contiguous())
    unary("pad", lambda x: F.pad(x, (1, 1, 1, 1)))
    unary("pad, reflect", lambda x: F.pad(x, (1, 1, 1, 1), "reflect"))
    unary("flip", lambda x: x.flip(3))
    unary("roll", lambda x: x.roll(3, 2))
    unary("repeat", lambda x: x.repeat(1, 1, 2, 1))
    add("concatenate", [image, (n, 32, 32, 32)], lambda x, y: torch.cat([x, y], 1), images=True)
    add("stack", [tokens, tokens], lambda x, y: torch.stack([x, y], 1))
    unary("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1))
    add("max_pool1d", [(n, 64, 256)], lambda x: F.max_pool1d(x, 2))
    add("max_pool3d", [volume], lambda x: F.max_pool3d(x, 2))
    add("avg_pool1d", [(n, 64, 256)], lambda x: F.avg_pool1d(x, 2))
    add("avg_pool3d", [volume], lambda x: F.avg_pool3d(x, 2))
    unary("avg_pool2d", lambda x: F.avg_pool2d(x, 2))
    add("global_avg_pool2d", [(n, 512, 4, 4)], lambda x: F.adaptive_avg_pool2d(x, 1), images=True)
    unary("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 7))
    unary("interpolate, nearest", lambda x: F.interpolate(x, 64))
    unary("interpolate, bilinear", lambda x: F.interpolate(x, 64, mode="bilinear"))
    unary("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2))

    places, words = labels(n * 197 * 192, 192).reshape(tokens), labels(n * 197, 10000)
    rows = labels(n * 99, n * 197)
    add("gather", [tokens], lambda x: x.gather(2, places))
    add("scatter_add", [tokens, tokens], lambda x, y: x.scatter_add(2, places, y))
    add("embedding", [(10000, 192)], lambda w: F.embedding(words, w))
    add("index_select", [(n * 197, 192)], lambda x: x.index_select(0, rows))
    few = labels(n * 197, 100)
    add("one_hot", [], lambda: F.one_hot(few, 100).float(), learns=False)

    classes, target = labels(n, 1000), constant(*image)
    target_last = target.contiguous(memory_format=torch.channels_last)

    def like(x):
        return target if x.is_contiguous() else target_last
    add("cross_entropy/1000", [(n, 1000)], lambda x: F.cross_entropy(x, classes))
    add("nll_loss/1000", [(n, 1000)], lambda x: F.nll_loss(x, classes))
    unary("mse_loss", lambda x: F.mse_loss(x, like(x)))
    unary("l1_loss", lambda x: F.l1_loss(x, like(x)))
    unary("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, like(x)))
    odds = target.sigmoid()
    add("bce_with_logits", [image], lambda x: F.binary_cross_entropy_with_logits(x, odds))
    shares = target.softmax(1)
    add("kl_div", [image], lambda x: F.kl_div(x, shares))
    signs, row_signs = target.sign(), constant(n * 197).sign()
    unary("huber_loss", lambda x: F.huber_loss(x, like(x)))
    add("poisson_nll_loss", [image], lambda x: F.poisson_nll_loss(x, odds))
    add("gaussian_nll_loss", [image], lambda x: F.gaussian_nll_loss(x, target, odds))
    add("hinge_embedding_loss", [image], lambda x: F.hinge_embedding_loss(x, signs))
    add("soft_margin_loss", [image], lambda x: F.soft_margin_loss(x, signs))
    matrix = (n * 197, 192)
    add("cosine_similarity", [matrix, matrix], F.cosine_similarity)
    add("cosine_embedding_loss", [matrix, matrix], lambda x, y: F.cosine_embedding_loss(x, y, row_signs))
    add("triplet_margin_loss", [matrix] * 3, F.triplet_margin_loss)
    add("multi_margin_loss", [(n, 1000)], lambda x: F.multi_margin_loss(x, classes))
    optimizers(add, constant)
    return found


def optimizers(add, constant):
    """Steps with the parameters of ResNet-18 for images of 32x32, all at once (foreach)."""
    shapes, channels = [(64, 3, 3, 3), (64,), (64,)], 64
    for out in (64, 64, 128, 128, 256, 256, 512, 512):
        for inner in (channels, out):
            shapes += [(out, inner, 3, 3), (out,), (out,)]
        if channels != out:
            shapes += [(out, channels, 1, 1), (out,), (out,)]
        channels = out
    shapes += [(10, 512), (10,)]

    def step(name, kind, **options):
        made = []

        def call():
            if not made:
                parameters = [constant(*shape).requires_grad_() for shape in shapes]
                for x in parameters:
                    x.grad = constant(*x.shape)
                made.append(kind(parameters, lr=1e-5, **options))
            made[0].step()
            return made[0]
        add(name + " step", [], call, learns=False)

    step("sgd", torch.optim.SGD, momentum=0.9, foreach=True)
    step("adam", torch.optim.Adam, foreach=True)
    step("adamw", torch.optim.AdamW, foreach=True)
    step("rmsprop", torch.optim.RMSprop, foreach=True)


def measure(call, synchronize, arguments):
    """Microseconds of a call: the median of blocks of at least 5 ms, for `arguments.seconds`."""
    now = time.process_time if arguments.processor_time else time.perf_counter

    def block(calls):
        begin = now()
        for _ in range(calls):
            call()
        synchronize()
        return now() - begin

    block(2)
    calls = 1
    while block(calls) < 5e-3:
        calls *= 2
    times = []
    while sum(times) < arguments.seconds or len(times) < 5:
        times.append(block(calls))
    return statistics.median(times) / calls * 1e6


def gradients(y, inputs, dy):
    """Those that are views of something else are written out."""
    def is_dense(x):
        return x.is_contiguous() or x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return [x if is_dense(x) else x.contiguous() for x in torch.autograd.grad(y, inputs, dy)]


def run(shapes, function, more, memory_format, arguments):
    learns = more.get("learns", True)
    synchronize = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    inputs = []
    for shape in shapes:
        x = torch.randn(shape, dtype=dtype, device=arguments.device)
        if x.dim() == 4:
            x = x.contiguous(memory_format=memory_format)
        inputs.append(x.requires_grad_(learns))
    if "module" in more:
        inputs += more["module"].to(device=arguments.device, dtype=dtype).parameters()
    result = {}
    with torch.no_grad():
        y = function(*inputs)
        result["forward_us"] = measure(lambda: function(*inputs), synchronize, arguments)
    if learns:
        dy = torch.randn_like(y)
        result["both_us"] = measure(lambda: gradients(function(*inputs), inputs, dy), synchronize, arguments)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions whose name holds this text")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true", help="of all threads: with --threads 1")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32

    def constant(*shape):
        return torch.randn(shape, dtype=dtype, device=arguments.device)

    def labels(count, classes):
        return torch.randint(0, classes, (count,), device=arguments.device)

    for name, shapes, function, more in cases(arguments.batch, constant, labels):
        if arguments.only not in name:
            continue
        formats = [torch.contiguous_format] + [torch.channels_last] * more.get("images", False)
        try:
            results = [run(shapes, function, more, each, arguments) for each in formats]
        except (RuntimeError, NotImplementedError) as error:
            print(f"torch_functions: {name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        best = {key: min(result[key] for result in results) for key in results[0]}
        print(json.dumps({"function": name, **best}), flush=True)


if __name__ == "__main__":
    main()

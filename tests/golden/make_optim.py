#!/usr/bin/env python3
"""Makes the golden files of optimizers and schedules beside it, with PyTorch 1.13 and NumPy.

tests/golden/make_optim.py

optim.safetensors      parameters of odd sizes, gradients of ten steps, and the values after some of
                       these: "start.a", "grads.a" (10, ...) and "nadam.0.f32.a" (4, ...), that of
                       the first set of options after the steps that TOLD lists; "wide", "tall" and
                       "kernel" are those of Muon
averages.safetensors   "uniform.f32.a" (4, ...) and the like: averages of the weights that SGD has at
                       a rate of 0.5 with the gradients of optim.safetensors, each step's being averaged
lbfgs.safetensors      Rosenbrock's function of seven values and a parabola of five: "0.f64.x" (steps, 7)
                       and "0.f64.w" (steps, 5) after each step by the first set of options, and
                       "0.f64.losses", those before it
schedules.safetensors  "polynomial" and the like: rates of the steps from 0 on

Lion, LAMB and Muon are not in PyTorch; they are written here from the formulas of their papers.
"""
from pathlib import Path

import numpy as np
import torch

import safetensors_file

HERE = Path(__file__).parent
DTYPES = {"f32": torch.float32, "f64": torch.float64}
CODES = {"f32": "F32", "f64": "F64"}
SHAPES = {"a": (3, 5), "b": (7,), "c": (1,)}
STEPS = 10
TOLD = [1, 2, 5, 10]


def save(name, tensors):
    safetensors_file.write(HERE / f"{name}.safetensors",
                           {key: (code, np.shape(value), np.ravel(value).tolist())
                            for key, (code, value) in tensors.items()})


# -- optimizers ------------------------------------------------------------------------------------

def lion(lr, betas, weight_decay):
    """Chen et al. 2023, algorithm 2."""
    moments = {}

    def step(key, w, g):
        m = moments.get(key, np.zeros_like(w))
        update = np.sign(betas[0] * m + (1 - betas[0]) * g)
        moments[key] = betas[1] * m + (1 - betas[1]) * g
        return w - lr * (update + weight_decay * w)
    return step


def lamb(lr, betas, eps, weight_decay):
    """You et al. 2020, algorithm 2, phi being the identity."""
    moments = {}

    def step(key, w, g):
        m, v, t = moments.get(key, (np.zeros_like(w), np.zeros_like(w), 0))
        m, v, t = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g, t + 1
        moments[key] = m, v, t
        r = m / (1 - betas[0]**t) / (np.sqrt(v / (1 - betas[1]**t)) + eps) + weight_decay * w
        of_w, of_r = np.linalg.norm(w), np.linalg.norm(r)
        return w - lr * (of_w / of_r if of_w > 0 and of_r > 0 else 1) * r
    return step


def orthogonalised(g, iterations):
    """Newton and Schulz's iteration of Jordan et al. 2024, on the rows of g or its columns."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.reshape(len(g), -1)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).reshape(g.shape)


def muon(lr, momentum, nesterov=True, weight_decay=0, normalize=False, iterations=5):
    """Jordan et al. 2024; the norm of the weights is that of the same authors' runs on CIFAR-10."""
    buffers = {}

    def step(key, w, g):
        w, g = torch.from_numpy(w), torch.from_numpy(g)
        buffers[key] = momentum * buffers.get(key, torch.zeros_like(g)) + g
        update = orthogonalised(g + momentum * buffers[key] if nesterov else buffers[key], iterations)
        shrunk = w * (1 - lr * weight_decay)
        if normalize:
            shrunk = shrunk * len(w)**0.5 / w.norm()
        return (shrunk - lr * update).numpy()
    return step


PLAIN = (lion, lamb, muon)
MATRICES = {"wide": (3, 5), "tall": (6, 2), "kernel": (4, 2, 3, 2)}
MUON = [dict(lr=0.02, momentum=0.95),
        dict(lr=0.05, momentum=0.8, nesterov=False, weight_decay=0.1, iterations=3),
        dict(lr=0.1, momentum=0.6, normalize=True)]

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, [
        dict(lr=0.1),
        dict(lr=0.05, momentum=0.9, weight_decay=0.1),
        dict(lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True)]),
    "adam": (torch.optim.Adam, [
        dict(lr=0.05),
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)]),
    "adamw": (torch.optim.AdamW, [
        dict(lr=0.05),
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)]),
    # 1.13 multiplies the coming product with mu(t) twice unless foreach is set; later ones do not.
    "nadam": (lambda p, **o: torch.optim.NAdam(p, foreach=True, **o), [
        dict(lr=0.05),
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, momentum_decay=0.1)]),
    "radam": (torch.optim.RAdam, [  # the step's length is rectified from step 6 on
        dict(lr=0.05),
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)]),
    "rmsprop": (torch.optim.RMSprop, [
        dict(lr=0.02),
        dict(lr=0.01, alpha=0.9, eps=1e-4, weight_decay=0.1, momentum=0.8, centered=True)]),
    "adagrad": (torch.optim.Adagrad, [
        dict(lr=0.1),
        dict(lr=0.2, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-4)]),
    "lion": (lion, [dict(lr=0.01, betas=(0.9, 0.99), weight_decay=0),
                    dict(lr=0.02, betas=(0.7, 0.8), weight_decay=0.3)]),
    "lamb": (lamb, [dict(lr=0.1, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01),
                    dict(lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0)]),
}


def trajectory(make, options, dtype, start, grads):
    """{key: values after the steps of TOLD}."""
    told = {key: [] for key in start}
    if make in PLAIN:
        step, exact = make(**options), {key: value.astype(dtype) for key, value in start.items()}
        for t in range(STEPS):
            for key in start:
                exact[key] = step(key, exact[key], grads[key][t].astype(dtype)).astype(dtype)
                if t + 1 in TOLD:
                    told[key].append(exact[key])
        return told
    torch.set_default_dtype(DTYPES[dtype])  # of the counts and products that the state holds
    values = {key: torch.tensor(value, dtype=DTYPES[dtype]) for key, value in start.items()}
    optimizer = make([v.requires_grad_() for v in values.values()], **options)
    for t in range(STEPS):
        for key, value in values.items():
            value.grad = torch.tensor(grads[key][t], dtype=DTYPES[dtype])
        optimizer.step()
        if t + 1 in TOLD:
            for key, value in values.items():
                told[key].append(value.detach().numpy().copy())
    return told


def drawn(rng, shapes):
    """Values and ten gradients of parameters, of numbers that f32 holds."""
    start = {key: np.round(rng.normal(size=shape) * 64) / 64 for key, shape in shapes.items()}
    grads = {key: np.round(rng.normal(size=(STEPS, *shape)) * 64) / 64 for key, shape in shapes.items()}
    return start, grads


def trajectories(optimizers, start, grads):
    tensors = {f"start.{key}": ("F64", value) for key, value in start.items()}
    tensors |= {f"grads.{key}": ("F64", value) for key, value in grads.items()}
    for name, (make, sets) in optimizers.items():
        for number, options in enumerate(sets):
            for dtype in DTYPES:
                numpy_or_torch = {"f32": "float32", "f64": "float64"}[dtype] if make in PLAIN else dtype
                for key, values in trajectory(make, options, numpy_or_torch, start, grads).items():
                    tensors[f"{name}.{number}.{dtype}.{key}"] = CODES[dtype], values
    return tensors


def make_optimizers():
    start, grads = drawn(np.random.default_rng(1), SHAPES)
    start["c"] = np.zeros(1)  # a parameter that is zero at first
    tensors = trajectories(OPTIMIZERS, start, grads)
    tensors |= trajectories({"muon": (muon, MUON)}, *drawn(np.random.default_rng(2), MATRICES))
    save("optim", tensors)
    save("averages", averages(start, grads))


# -- averages of weights ---------------------------------------------------------------------------

def warm(decay):
    """The share of update t: decay, but less at first; the copy of the start is the first that counts."""
    def average(mean, value, count):
        share = min(decay, float(count) / (9 + float(count)))
        return share * mean + (1 - share) * value
    return average


# The function of swa_utils, and whether the start is averaged with the rest.
AVERAGES = {"uniform": (None, False),
            "moving": (lambda mean, value, count: 0.9 * mean + 0.1 * value, True),
            "warm": (warm(0.5), True)}


def averages(start, grads):
    tensors = {}
    for name, (function, from_start) in AVERAGES.items():
        for dtype in DTYPES:
            model = torch.nn.ParameterDict({key: torch.nn.Parameter(torch.tensor(value, dtype=DTYPES[dtype]))
                                            for key, value in start.items()})
            mean = torch.optim.swa_utils.AveragedModel(model, avg_fn=function)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            if from_start:
                mean.update_parameters(model)
            told = {key: [] for key in start}
            for t in range(STEPS):
                for key, value in model.items():
                    value.grad = torch.tensor(grads[key][t], dtype=DTYPES[dtype])
                optimizer.step()
                mean.update_parameters(model)
                if t + 1 in TOLD:
                    for key, value in mean.module.items():
                        told[key].append(value.detach().numpy().copy())
            tensors |= {f"{name}.{dtype}.{key}": (CODES[dtype], values) for key, values in told.items()}
    return tensors


# -- schedules -------------------------------------------------------------------------------------

def rates(make, count=40):
    """Of the steps from 0 on, from a rate of 0.5."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler, list_ = make(optimizer), []
    for _ in range(count):
        list_.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return list_


def plateau(metrics, **options):
    """The rates after each metric, from a rate of 0.5."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler, list_ = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options), []
    for metric in metrics:
        scheduler.step(metric)
        list_.append(optimizer.param_groups[0]["lr"])
    return list_


def make_schedules():
    kinds = torch.optim.lr_scheduler
    schedules = {
        "polynomial": lambda o: kinds.PolynomialLR(o, total_iters=30, power=2),
        "exponential": lambda o: kinds.ExponentialLR(o, gamma=0.9),
        "multi_step": lambda o: kinds.MultiStepLR(o, milestones=[5, 6, 20], gamma=0.3),
        "step": lambda o: kinds.StepLR(o, step_size=7, gamma=0.3),
        "cosine": lambda o: kinds.CosineAnnealingLR(o, T_max=40, eta_min=0.01),
        "one_cycle": lambda o: kinds.OneCycleLR(o, max_lr=0.5, total_steps=41, cycle_momentum=False),
        "one_cycle_late": lambda o: kinds.OneCycleLR(o, max_lr=0.5, total_steps=41, pct_start=0.7, div_factor=10,
                                                     final_div_factor=100, cycle_momentum=False),
        "linear": lambda o: kinds.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=12),
        "restarts": lambda o: kinds.CosineAnnealingWarmRestarts(o, T_0=7, eta_min=0.01),
        "growing_restarts": lambda o: kinds.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2),
        "sequence": lambda o: kinds.SequentialLR(o, [
            kinds.LinearLR(o, start_factor=0.25, total_iters=6), kinds.ExponentialLR(o, gamma=0.8),
            kinds.StepLR(o, step_size=4, gamma=0.5)], milestones=[6, 15]),
    }
    tensors = {name: ("F64", rates(make)) for name, make in schedules.items()}
    # Falls, plateaus, and rises again.
    metrics = [1, 0.8, 0.79, 0.81, 0.8, 0.795, 0.789, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.5, 0.5, 0.5,
               0.49999, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    tensors["plateau.metrics"] = "F64", metrics
    tensors["plateau.loss"] = "F64", plateau(metrics, factor=0.5, patience=2)
    tensors["plateau.cooling"] = "F64", plateau(metrics, factor=0.3, patience=1, cooldown=2,
                                                threshold=0.02, threshold_mode="abs", min_lr=0.01)
    tensors["plateau.accuracy"] = "F64", plateau([1 - m for m in metrics], mode="max", factor=0.5,
                                                 patience=1, threshold=0.05)
    save("schedules", tensors)


# -- L-BFGS ----------------------------------------------------------------------------------------

LBFGS = [dict(lr=0.02, max_iter=4, history_size=5),
         dict(max_iter=6, history_size=3, line_search_fn="strong_wolfe"),
         dict(lr=8, max_iter=3, max_eval=4, line_search_fn="strong_wolfe")]


def lbfgs(options, dtype, steps=6):
    x = torch.tensor([-1.2, 1, -0.5, 0.8, 1.1, -0.3, 0.4], dtype=dtype, requires_grad=True)
    w = torch.tensor([1, -2, 3, 0.5, 0], dtype=dtype, requires_grad=True)
    scales = torch.tensor([1, 2, 3, 4, 5], dtype=dtype)
    optimizer = torch.optim.LBFGS([x, w], **options)

    def closure():
        optimizer.zero_grad()
        rosenbrock = (100 * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2).sum()
        loss = rosenbrock + (scales * (w - 1)**2).sum()
        loss.backward()
        return loss

    told = {"x": [], "w": [], "losses": []}
    for _ in range(steps):
        told["losses"].append(float(optimizer.step(closure)))
        told["x"].append(x.detach().numpy().copy())
        told["w"].append(w.detach().numpy().copy())
    return told


def make_lbfgs():
    save("lbfgs", {f"{number}.{name}.{key}": ("F64" if key == "losses" else CODES[name], value)
                   for number, options in enumerate(LBFGS) for name, dtype in DTYPES.items()
                   for key, value in lbfgs(options, dtype).items()})


make_optimizers()
make_schedules()
make_lbfgs()

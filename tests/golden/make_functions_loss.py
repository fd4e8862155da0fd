#!/usr/bin/env python3
"""Makes functions_loss.safetensors beside it (see function_golden.py) with PyTorch 1.13."""
import torch
import torch.nn.functional as F

from function_golden import case, normal, numbers, uniform, write

REDUCTIONS = ("mean", "sum", "none")
WEIGHTS = numbers(0.5, 2, 1.25, 0.75)  # of classes


def all_reductions(name, function, *inputs, **options):
    """name is the mean, name/sum and name/none the others."""
    for reduction in REDUCTIONS:
        case(name if reduction == "mean" else f"{name}/{reduction}",
             lambda *x, r=reduction: function(*x, reduction=r, **options), *inputs)


def label_cases():
    x, labels = normal(5, 4), torch.tensor([2, 0, 3, 1, 0])
    logs = torch.log_softmax(x, 1).to(torch.float32).double()
    all_reductions("nll_loss", F.nll_loss, logs, labels)
    case("nll_loss/weights", lambda x, y: F.nll_loss(x, y, WEIGHTS, ignore_index=0), logs, labels)
    case("nll_loss/ignored", lambda x, y: F.nll_loss(x, y, WEIGHTS, ignore_index=3, reduction="none"), logs, labels)
    # Our classes are the last dimension, PyTorch's the second.
    case("nll_loss/dims", lambda x, y: F.nll_loss(x.permute(0, 2, 1), y), normal(2, 3, 4),
         torch.tensor([[1, 0, 3], [2, 2, 1]]))
    all_reductions("multi_margin_loss", F.multi_margin_loss, x, labels)
    case("multi_margin_loss/squares", lambda x, y: F.multi_margin_loss(x, y, p=2, margin=0.5, weight=WEIGHTS), x, labels)


def binary_cases():
    x, target = normal(3, 4, scale=2), uniform(0, 1, 3, 4)
    bce = F.binary_cross_entropy_with_logits
    all_reductions("binary_cross_entropy_with_logits", bce, x, target)
    case("binary_cross_entropy_with_logits/weights",
         lambda x, t: bce(x, t, weight=numbers(1, 0, 2).reshape(3, 1), pos_weight=WEIGHTS), x, target)
    case("binary_cross_entropy_with_logits/tails", lambda x: bce(x, numbers(0, 1, 0, 1), reduction="none"),
         numbers(-90, -90, 90, 90))

    def focal(x, t, alpha=0.25, gamma=2, reduction="mean"):  # torchvision's sigmoid_focal_loss
        p = torch.sigmoid(x)
        losses = bce(x, t, reduction="none") * (p * (1 - t) + (1 - p) * t) ** gamma
        if alpha >= 0:
            losses = losses * (alpha * t + (1 - alpha) * (1 - t))
        return {"mean": losses.mean, "sum": losses.sum, "none": lambda: losses}[reduction]()
    all_reductions("focal_loss", lambda x, reduction: focal(x, hard_of(x), reduction=reduction), x)
    case("focal_loss/plain", lambda x: focal(x, hard_of(x), -1, 0), x)
    case("focal_loss/gamma", lambda x: focal(x, hard_of(x), 0.75, 0.5), x)


def hard_of(x):
    """Targets 0, 1, 1, 0, 1, 1 ..."""
    return (torch.arange(x.numel()) % 3 != 0).double().reshape(x.shape)


def probability_cases():
    logs = torch.log_softmax(normal(3, 4), 1).to(torch.float32).double()
    target = torch.softmax(normal(3, 4), 1).to(torch.float32).double()
    all_reductions("kl_div", F.kl_div, logs, target)
    case("kl_div/batchmean", lambda x, t: F.kl_div(x, t, reduction="batchmean"), logs, target)
    case("kl_div/log_target", lambda x, t: F.kl_div(x, t, reduction="batchmean", log_target=True), logs, normal(3, 4))
    case("kl_div/zeros", lambda x: F.kl_div(x, numbers(0, 0.25, 0.75), reduction="none"), normal(3))


def regression_cases():
    x, target = normal(3, 4, scale=1.5), normal(3, 4)
    all_reductions("mse_loss", F.mse_loss, x, target)
    all_reductions("l1_loss", F.l1_loss, x, target)
    all_reductions("smooth_l1_loss", F.smooth_l1_loss, x, target)
    case("smooth_l1_loss/beta", lambda x, t: F.smooth_l1_loss(x, t, beta=0.5), x, target)
    case("smooth_l1_loss/zero", lambda x, t: F.smooth_l1_loss(x, t, beta=0), x, target)
    all_reductions("huber_loss", F.huber_loss, x, target)
    case("huber_loss/delta", lambda x, t: F.huber_loss(x, t, delta=0.7), x, target)


def pair_cases():
    a, b, labels = normal(4, 5), normal(4, 5), numbers(1, -1, -1, 1)
    case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), a, b)
    case("cosine_similarity/dim", lambda a, b: F.cosine_similarity(a, b, dim=0, eps=1e-3), a, b)
    all_reductions("cosine_embedding_loss", lambda a, b, reduction: F.cosine_embedding_loss(
        a, b, labels, margin=-0.3, reduction=reduction), a, b)
    all_reductions("margin_ranking_loss", lambda a, b, reduction: F.margin_ranking_loss(
        a, b, labels, margin=0.25, reduction=reduction), normal(4), normal(4))
    all_reductions("hinge_embedding_loss", lambda x, reduction: F.hinge_embedding_loss(
        x, labels, margin=1.25, reduction=reduction), uniform(0, 2, 4))
    all_reductions("soft_margin_loss", lambda x, reduction: F.soft_margin_loss(x, labels, reduction=reduction), normal(4))
    all_reductions("triplet_margin_loss", F.triplet_margin_loss, a, b, normal(4, 5))
    case("triplet_margin_loss/swap", lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=2, p=3, swap=True),
         a, b, normal(4, 5))


def cross_entropy_cases():
    x, labels = normal(5, 4, scale=3), torch.tensor([2, 0, 3, 1, 0])
    all_reductions("cross_entropy", F.cross_entropy, x, labels)
    case("cross_entropy/weights",
         lambda x, y: F.cross_entropy(x, y, WEIGHTS, ignore_index=0, label_smoothing=0.1), x, labels)
    case("cross_entropy/smoothed", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.3, reduction="none"), x, labels)
    case("cross_entropy/dims", lambda x, y: F.cross_entropy(x.permute(0, 2, 1), y), normal(2, 3, 7),
         torch.tensor([[1, 0, 6], [2, 5, 1]]))
    shares = torch.softmax(normal(5, 4), 1).to(torch.float32).double()
    case("cross_entropy/shares", lambda x, t: F.cross_entropy(x, t.detach(), WEIGHTS, label_smoothing=0.2), x, shares)


def likelihood_cases():
    x, counts = normal(3, 4), torch.randint(0, 6, (3, 4)).double() + 0.25
    all_reductions("poisson_nll_loss", F.poisson_nll_loss, x, counts)
    case("poisson_nll_loss/full", lambda x, t: F.poisson_nll_loss(x, t, full=True, reduction="none"), x, counts)
    case("poisson_nll_loss/rates", lambda x, t: F.poisson_nll_loss(x, t, log_input=False, eps=1e-3),
         uniform(0.2, 4, 3, 4), counts)
    target, variance = normal(3, 4), uniform(0.1, 3, 3, 4)
    all_reductions("gaussian_nll_loss", F.gaussian_nll_loss, x, target, variance)
    case("gaussian_nll_loss/full", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, eps=1e-3), x, target, variance)
    case("gaussian_nll_loss/small", lambda x, t, v: F.gaussian_nll_loss(x, t, v, eps=1, reduction="none"), x, target,
         variance)


if __name__ == "__main__":
    write("functions_loss.safetensors", (label_cases, binary_cases, probability_cases, regression_cases, pair_cases,
                                       cross_entropy_cases, likelihood_cases))

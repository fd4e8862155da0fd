#!/usr/bin/env python3
"""Makes functions_shape.safetensors beside it (see function_golden.py) with PyTorch 1.13."""
import torch
import torch.nn.functional as F

from function_golden import case, normal, write

INF, NAN = float("inf"), float("nan")


def index_cases():
    x = normal(3, 4, 5)
    rows = torch.tensor([2, 0, 2, 3, 3])
    own = torch.tensor([[[0, 3, 1, 1, 2], [2, 2, 0, 3, 3]], [[1, 1, 1, 1, 1], [0, 0, 3, 2, 2]],
                        [[3, 2, 1, 0, 3], [3, 2, 1, 0, 0]]])
    case("gather", lambda x, i: x.gather(1, i), x, own)
    case("gather/last", lambda x, i: x.gather(-1, i), normal(2, 4), torch.tensor([[3, 3, 0], [1, 2, 1]]))
    case("gather/i32", lambda x, i: x.gather(0, i.long()), normal(6), torch.tensor([5, 0, 0, 2], dtype=torch.int32))
    case("index_select", lambda x, i: x.index_select(1, i), x, rows)
    case("index_select/first", lambda x, i: x.index_select(0, i), normal(4, 3), rows)
    case("index_select/last", lambda x, i: x.index_select(2, i), x, rows)
    case("scatter", lambda x, i, s: x.scatter(1, i, s), normal(2, 5),
         torch.tensor([[4, 0, 2], [1, 0, 3]]), normal(2, 3))
    case("scatter/first", lambda x, i, s: x.scatter(0, i, s), normal(4, 2, 2),
         torch.tensor([[[3, 1], [0, 0]], [[2, 2], [1, 3]]]), normal(2, 2, 2))
    case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), x, own, normal(3, 2, 5))
    case("scatter_add/flat", lambda x, i, s: x.scatter_add(0, i, s), normal(4), rows, normal(5))
    case("index_add", lambda x, i, s: x.index_add(1, i, s), x, rows, normal(3, 5, 5))
    case("masked_fill", lambda x, m: x.masked_fill(m, -2.5), normal(2, 3),
         torch.tensor([[True, False, True], [False, False, True]]))
    case("masked_fill/broadcast", lambda x, m: x.masked_fill(m, 0.5), normal(2, 3, 2), torch.tensor([[True], [False], [True]]))
    case("embedding", lambda i, w: F.embedding(i, w), torch.tensor([[1, 4, 1], [0, 1, 3]]), normal(5, 3))
    case("embedding/padding", lambda i, w: F.embedding(i, w, padding_idx=1), torch.tensor([1, 4, 1, 0, 4]), normal(5, 4))
    case("embedding/i32", lambda i, w: F.embedding(i, w), torch.tensor([4, 2, 2], dtype=torch.int32), normal(5, 1))


def rearrange_cases():
    x = normal(2, 3, 4)
    case("pad", lambda x: F.pad(x, (2, 0, 1, 3, 0, 1), value=1.5), x)
    case("pad/crop", lambda x: F.pad(x, (-1, 2, 0, -2)), x)
    # Our paddings are those of all dimensions.
    case("pad/reflect", lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect"), normal(1, 2, 3, 4))
    case("pad/replicate", lambda x: F.pad(x, (2, 0, 5, 1), mode="replicate"), normal(1, 2, 3, 4))
    case("pad/circular", lambda x: F.pad(x, (2, 4, 1, 0), mode="circular"), normal(1, 2, 3, 4))
    case("flip", lambda x: x.flip(0, 2), x)
    case("flip/none", lambda x: x.flip(()), x)
    case("roll", lambda x: x.roll((1, -5), (1, 2)), x)
    case("repeat", lambda x: x.repeat(2, 1, 3, 2), x)
    case("repeat/none", lambda x: x.repeat(0, 1, 3), x)
    case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), x)
    case("split", lambda x: x.split(2, 1)[1], normal(3, 5, 2))
    case("split/all", lambda x: sum(p.square().sum((1, 2)) for p in x.split(2, 1)), normal(3, 5, 2))
    case("split/first", lambda x: x.split(2, 0)[1], normal(3, 2))
    case("chunk", lambda x: x.chunk(3, -1)[2], normal(2, 7))
    case("chunk/fewer", lambda x: x.chunk(4, 0)[-1], normal(6, 2))
    case("stack", lambda a, b: torch.stack([a, b, a], 1), normal(2, 3), normal(2, 3))
    case("stack/last", lambda a, b: torch.stack([a, b], -1), normal(2, 3), normal(2, 3))
    case("squeeze", lambda x: x.squeeze(1), normal(3, 1, 2))
    case("unsqueeze", lambda x: x.unsqueeze(-1), normal(3, 2))


def product_cases():
    case("matmul/vectors", torch.matmul, normal(5), normal(5))
    case("matmul/row", torch.matmul, normal(3), normal(2, 3, 4))
    case("matmul/column", torch.matmul, normal(2, 4, 3), normal(3))
    case("matmul/one_matrix", torch.matmul, normal(2, 3, 2, 4), normal(4, 3))
    case("matmul/broadcast", torch.matmul, normal(2, 1, 2, 4), normal(3, 4, 2))
    for name, equation, *shapes in (
            ("", "bhtd,bhsd->bhts", (2, 3, 4, 5), (2, 3, 2, 5)),
            ("/values", "bhts,bshd->bthd", (2, 2, 3, 4), (2, 4, 2, 3)),
            ("/implicit", "ki,kj", (4, 3), (4, 2)),
            ("/three", "ai,bi,ci->abc", (2, 4), (3, 4), (2, 4)),
            ("/bilinear", "bi,oij,bj->bo", (3, 2), (4, 2, 3), (3, 3)),
            ("/outer", "i,j->ji", (3,), (4,)),
            ("/elementwise", "ij,ji->ij", (2, 3), (3, 2)),
            ("/rows", "bi,bi->b", (3, 4), (3, 4)),
            ("/sum", "ijk->j", (2, 3, 4)),
            ("/permute", "ijk->kij", (2, 3, 4)),
            ("/alone", "ij,kl->il", (2, 3), (2, 4)),
            ("/scalar", "ij,->ij", (2, 3), ())):
        case("einsum" + name, lambda *x, e=equation: torch.einsum(e, *x), *(normal(*s) for s in shapes))


def sort_cases():
    x = normal(3, 4, 2)
    ties = torch.tensor([[2, -1, 2, NAN, -1, 0], [NAN, 3, INF, NAN, -INF, 3]]).double()
    for name, function in (
            ("", lambda x: x.sort(stable=True)), ("/first", lambda x: x.sort(0)),
            ("/descending", lambda x: x.sort(1, descending=True))):
        case("sort" + name, lambda x, f=function: f(x).values, x)
    case("sort/ties", lambda x: x.sort(stable=True).values, ties)
    case("sort/ties_descending", lambda x: x.sort(stable=True, descending=True).values, ties)
    case("argsort", lambda x: x.detach().argsort(1), x)
    case("argsort/ties", lambda x: x.detach().sort(stable=True).indices, ties)
    case("argsort/descending", lambda x: x.detach().sort(stable=True, descending=True).indices, ties)
    case("argsort/integers", lambda x: x.sort(stable=True, dim=0).indices, torch.tensor([[3, -7], [3, 8], [-9, 8]]))
    case("topk", lambda x: x.topk(2, 1).values, x)
    case("topk/smallest", lambda x: x.topk(3, 1, largest=False).values, x)
    case("topk/indices", lambda x: x.detach().topk(2).indices, normal(3, 5))


def unbind_cases():
    case("unbind", lambda x: x.unbind(1)[2], normal(3, 5, 2))
    case("unbind/all", lambda x: sum(p.square().sum((1, 2)) for p in x.unbind()), normal(3, 2, 2, 3))


def einsum_cases():
    for name, equation, *shapes in (
            ("/dots", "...ij,...jk", (2, 1, 3, 2), (3, 2, 4)),
            ("/dots_first", "i...,ij->...j", (3, 4, 2), (3, 2)),
            ("/dots_summed", "...i,...i->i", (2, 3, 4), (3, 4)),
            ("/dots_alone", "...,...->...", (2, 1), (3,)),
            ("/trace", "ii", (4, 4)),
            ("/diagonal", "ii->i", (3, 3)),
            ("/diagonals", "...iji->...ij", (2, 3, 2, 3)),
            ("/thrice", "iii->i", (3, 3, 3)),
            ("/diagonal_product", "bii,ij->bj", (2, 3, 3), (3, 2))):
        case("einsum" + name, lambda *x, e=equation: torch.einsum(e, *x), *(normal(*s) for s in shapes))


if __name__ == "__main__":
    write("functions_shape.safetensors",
          (index_cases, rearrange_cases, product_cases, sort_cases, unbind_cases, einsum_cases))

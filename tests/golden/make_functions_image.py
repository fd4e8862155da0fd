#!/usr/bin/env python3
"""Makes functions_image.safetensors beside it (see function_golden.py) with PyTorch 1.13. Images are
(N, H, W, C) there and convolution weights (O, KH, KW, I), sequences and their weights alike."""
import torch
import torch.nn.functional as F

from function_golden import case, normal, write


def first(x):
    """Channels last to channels first."""
    return x.movedim(-1, 1).contiguous()


def last(x):
    return x.movedim(1, -1)


def on_images(function, **options):
    return lambda x, *rest: last(function(first(x), *(first(r) if r.dim() > 1 else r for r in rest), **options))


def convolution_cases():
    x = normal(2, 6, 5, 4)
    case("conv2d", on_images(F.conv2d, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2), x,
         normal(6, 3, 2, 2), normal(6))
    case("conv1d", on_images(F.conv1d), normal(2, 7, 3), normal(4, 3, 3), normal(4))
    case("conv1d/strided", on_images(F.conv1d, stride=2, padding=3, dilation=2, groups=2), normal(2, 7, 4),
         normal(2, 3, 2))
    case("conv_transpose2d", on_images(F.conv_transpose2d), normal(2, 3, 4, 3), normal(3, 2, 3, 5), normal(5))
    case("conv_transpose2d/strided",
         on_images(F.conv_transpose2d, stride=(3, 2), padding=(1, 2), dilation=(1, 2), output_padding=(2, 1), groups=2),
         normal(2, 3, 4, 4), normal(4, 3, 3, 2))
    case("conv_transpose2d/no_batch", on_images(F.conv_transpose2d, stride=2), normal(0, 3, 2, 3), normal(3, 2, 2, 1))
    case("conv_transpose1d", on_images(F.conv_transpose1d, stride=2, padding=1, output_padding=1), normal(2, 5, 3),
         normal(3, 4, 2), normal(2))


def resample_cases():
    x = normal(2, 4, 5, 3)
    for name, size in (("larger", (7, 10)), ("smaller", (3, 2)), ("one", (1, 5))):
        case(f"interpolate/nearest_{name}", on_images(F.interpolate, size=size, mode="nearest"), x)
        for corners in (False, True):
            case(f"interpolate/bilinear_{name}{'_corners' if corners else ''}",
                 on_images(F.interpolate, size=size, mode="bilinear", align_corners=corners), x)
        case(f"adaptive_avg_pool2d/{name}", on_images(F.adaptive_avg_pool2d, output_size=size), x)
    case("pixel_shuffle", on_images(F.pixel_shuffle, upscale_factor=2), normal(2, 3, 2, 8))


def resample_cases_of_other_ranks():
    line, volume = normal(2, 7, 3), normal(2, 3, 4, 5, 2)
    for kind, mode, x, sizes in (("1d", "linear", line, {"larger": 11, "smaller": 3, "one": 1}),
                                 ("3d", "trilinear", volume,
                                  {"larger": (5, 7, 6), "smaller": (2, 3, 1), "mixed": (1, 9, 2)})):
        for name, size in sizes.items():
            case(f"interpolate{kind}/nearest_{name}", on_images(F.interpolate, size=size, mode="nearest"), x)
            for corners in (False, True):
                case(f"interpolate{kind}/linear_{name}{'_corners' if corners else ''}",
                     on_images(F.interpolate, size=size, mode=mode, align_corners=corners), x)


def unshuffle_cases():
    case("pixel_unshuffle", on_images(F.pixel_unshuffle, downscale_factor=2), normal(2, 4, 6, 3))


if __name__ == "__main__":
    write("functions_image.safetensors", (convolution_cases, resample_cases, resample_cases_of_other_ranks,
                                        unshuffle_cases))

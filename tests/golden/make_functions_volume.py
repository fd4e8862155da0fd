#!/usr/bin/env python3
"""Makes functions_volume.safetensors beside it (see function_golden.py) with PyTorch 1.13. Channels are last
there: volumes are (N, D, H, W, C) and convolution weights (O, KD, KH, KW, I), sequences alike."""
import torch.nn.functional as F

from function_golden import case, normal, write
from make_functions_image import on_images


def convolution_cases():
    case("conv1d/same", on_images(F.conv1d, padding="same"), normal(2, 5, 2), normal(3, 4, 2), normal(3))
    case("conv2d/same", on_images(F.conv2d, padding="same", dilation=(1, 2)), normal(2, 4, 5, 2), normal(3, 4, 3, 2),
         normal(3))
    case("conv2d/same_at_both_ends", on_images(F.conv2d, padding="same", groups=2), normal(1, 3, 4, 4),
         normal(2, 3, 1, 2))
    x = normal(1, 4, 3, 4, 4)
    case("conv3d", on_images(F.conv3d), normal(2, 3, 3, 3, 2), normal(3, 2, 3, 2, 2), normal(3))
    case("conv3d/strided",
         on_images(F.conv3d, stride=(2, 1, 2), padding=(1, 0, 1), dilation=(1, 2, 1), groups=2), x,
         normal(4, 3, 2, 2, 2), normal(4))
    case("conv3d/same", on_images(F.conv3d, padding="same", dilation=(1, 1, 2)), normal(1, 4, 3, 4, 2),
         normal(2, 2, 3, 2, 2), normal(2))
    case("conv3d/side_by_side", on_images(F.conv3d, stride=(2, 1, 1)), normal(1, 5, 2, 3, 2), normal(2, 2, 2, 2, 2))
    case("conv3d/whole_depth", on_images(F.conv3d, groups=2), x, normal(2, 4, 1, 3, 2))
    case("conv3d/flat", on_images(F.conv3d, stride=(2, 1, 1)), x, normal(2, 1, 2, 2, 4))
    case("conv3d/no_batch", on_images(F.conv3d, padding=1), normal(0, 2, 2, 2, 2), normal(2, 3, 2, 2, 2), normal(2))
    case("conv_transpose1d/strided",
         on_images(F.conv_transpose1d, stride=3, padding=1, dilation=2, output_padding=2, groups=2), normal(2, 4, 4),
         normal(4, 3, 2), normal(4))
    case("conv_transpose3d", on_images(F.conv_transpose3d), normal(2, 3, 2, 3, 2), normal(2, 2, 3, 2, 3), normal(3))
    case("conv_transpose3d/strided",
         on_images(F.conv_transpose3d, stride=(3, 2, 1), padding=(1, 1, 0), dilation=(1, 1, 2),
                   output_padding=(2, 1, 0), groups=2), normal(1, 2, 3, 2, 4), normal(4, 2, 3, 2, 1), normal(2))
    case("conv_transpose3d/side_by_side", on_images(F.conv_transpose3d, stride=2), normal(2, 2, 2, 2, 2),
         normal(2, 2, 2, 2, 2), normal(2))
    case("conv_transpose3d/no_batch", on_images(F.conv_transpose3d, stride=2), normal(0, 2, 2, 2, 2),
         normal(2, 3, 2, 2, 1))


def pool_cases():
    x, volume = normal(2, 7, 2), normal(1, 5, 4, 5, 2)
    case("max_pool1d", on_images(F.max_pool1d, kernel_size=3, stride=2, padding=1), x)
    case("max_pool1d/ceil", on_images(F.max_pool1d, kernel_size=2, ceil_mode=True), x)
    case("avg_pool1d", on_images(F.avg_pool1d, kernel_size=3, stride=2, padding=1), x)
    case("avg_pool1d/ceil",
         on_images(F.avg_pool1d, kernel_size=4, stride=2, padding=1, ceil_mode=True, count_include_pad=False), x)
    case("max_pool3d", on_images(F.max_pool3d, kernel_size=2), volume)
    case("max_pool3d/overlapping", on_images(F.max_pool3d, kernel_size=3, stride=(1, 2, 2), padding=1, ceil_mode=True),
         volume)
    case("avg_pool3d", on_images(F.avg_pool3d, kernel_size=(2, 1, 3)), volume)
    for name, counted in (("padded", True), ("unpadded", False)):
        case(f"avg_pool3d/{name}",
             on_images(F.avg_pool3d, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=counted),
             volume)
    image = normal(2, 5, 4, 3)
    case("global_max_pool2d", lambda y: F.adaptive_max_pool2d(y.movedim(-1, 1), 1).flatten(1), image)


def adaptive_cases():
    x, image, volume = normal(2, 7, 2), normal(1, 5, 4, 3), normal(1, 5, 4, 6, 1)
    for kind, average, largest in (("1d", F.adaptive_avg_pool1d, F.adaptive_max_pool1d),
                                   ("3d", F.adaptive_avg_pool3d, F.adaptive_max_pool3d)):
        of, size, more = {"1d": (x, 3, 9), "3d": (volume, (2, 3, 6), (3, 1, 7))}[kind]
        case(f"adaptive_avg_pool{kind}", on_images(average, output_size=size), of)
        case(f"adaptive_avg_pool{kind}/larger", on_images(average, output_size=more), of)
        case(f"adaptive_max_pool{kind}", on_images(largest, output_size=size), of)
        case(f"adaptive_max_pool{kind}/larger", on_images(largest, output_size=more), of)
    case("adaptive_max_pool2d", on_images(F.adaptive_max_pool2d, output_size=(3, 2)), image)
    case("adaptive_max_pool2d/larger", on_images(F.adaptive_max_pool2d, output_size=(7, 1)), image)


def image_pool_cases():
    x = normal(2, 7, 6, 3)
    case("max_pool2d", on_images(F.max_pool2d, kernel_size=2), x)
    case("max_pool2d/overlapping", on_images(F.max_pool2d, kernel_size=3, stride=(2, 1), padding=(1, 0)), x)
    case("max_pool2d/ceil", on_images(F.max_pool2d, kernel_size=(2, 3), stride=2, padding=1, ceil_mode=True), x)
    case("avg_pool2d", on_images(F.avg_pool2d, kernel_size=2), x)
    for name, counted in (("padded", True), ("unpadded", False)):
        case(f"avg_pool2d/{name}",
             on_images(F.avg_pool2d, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True,
                       count_include_pad=counted), x)
    case("global_avg_pool2d", lambda y: F.adaptive_avg_pool2d(y.movedim(-1, 1), 1).flatten(1), x)


if __name__ == "__main__":
    write("functions_volume.safetensors", (convolution_cases, pool_cases, adaptive_cases, image_pool_cases))

// The distinct convolutions of ResNet-50 (He et al. 2015, with the stride in the 3x3 convolutions).
#pragma once

#include <adret/core/kernels/conv.h>

#include <cstdint>

namespace adret::test {

struct SquareConv {
  int64_t size, channels, outputs, kernel, stride;  // padding (kernel - 1) / 2

  kernels::Conv2dParams params() const { return {.stride = stride, .padding = (kernel - 1) / 2}; }
  int64_t out() const { return (size + 2 * ((kernel - 1) / 2) - kernel) / stride + 1; }
};

inline constexpr SquareConv resnet50_convs[] = {
    {224, 3, 64, 7, 2},     {56, 64, 64, 1, 1},    {56, 64, 64, 3, 1},    {56, 64, 256, 1, 1},
    {56, 256, 64, 1, 1},    {56, 256, 128, 1, 1},  {56, 128, 128, 3, 2},  {28, 128, 512, 1, 1},
    {56, 256, 512, 1, 2},   {28, 512, 128, 1, 1},  {28, 128, 128, 3, 1},  {28, 512, 256, 1, 1},
    {28, 256, 256, 3, 2},   {14, 256, 1024, 1, 1}, {28, 512, 1024, 1, 2}, {14, 1024, 256, 1, 1},
    {14, 256, 256, 3, 1},   {14, 1024, 512, 1, 1}, {14, 512, 512, 3, 2},  {7, 512, 2048, 1, 1},
    {14, 1024, 2048, 1, 2}, {7, 2048, 512, 1, 1},  {7, 512, 512, 3, 1},
};
static_assert(sizeof(resnet50_convs) / sizeof(SquareConv) == 23);

}  // namespace adret::test

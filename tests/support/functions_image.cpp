// Cases of functions of images and sequences.
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/resample.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

const Tensor& bias_of(const Inputs& in) {
  static const Tensor none;
  return in.size() > 2 ? in[2] : none;
}

FunctionCase conv2d_case(const char* name, const Conv2dOptions& options) {
  return {name, [=](const Inputs& in) { return conv2d(in[0], in[1], bias_of(in), options); }};
}
FunctionCase conv1d_case(const char* name, const Conv1dOptions& options) {
  return {name, [=](const Inputs& in) { return conv1d(in[0], in[1], bias_of(in), options); }};
}
FunctionCase transpose_case(const char* name, const ConvTranspose2dOptions& options) {
  return {name,
          [=](const Inputs& in) { return conv_transpose2d(in[0], in[1], bias_of(in), options); }};
}
FunctionCase interpolate_case(const char* name, Size2 size, const InterpolateOptions& options) {
  return {name, [=](const Inputs& in) { return interpolate(in[0], size, options); }};
}
FunctionCase interpolate1d_case(const char* name, int64_t size, const InterpolateOptions& options) {
  return {name, [=](const Inputs& in) { return interpolate1d(in[0], size, options); }};
}
FunctionCase interpolate3d_case(const char* name, Size3 size, const InterpolateOptions& options) {
  return {name, [=](const Inputs& in) { return interpolate3d(in[0], size, options); }};
}
FunctionCase adaptive_case(const char* name, Size2 size) {
  return {name, [=](const Inputs& in) { return adaptive_avg_pool2d(in[0], size); }};
}

constexpr InterpolateOptions near{.mode = Interpolation::nearest};
constexpr InterpolateOptions edges{.mode = Interpolation::bilinear};
constexpr InterpolateOptions corners{.mode = Interpolation::bilinear, .align_corners = true};

}  // namespace

std::vector<FunctionCase> image_cases() {
  return {
      conv2d_case("conv2d", {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2}),
      conv1d_case("conv1d", {}),
      conv1d_case("conv1d/strided", {.stride = 2, .padding = 3, .dilation = 2, .groups = 2}),
      transpose_case("conv_transpose2d", {}),
      transpose_case("conv_transpose2d/strided", {.stride = {3, 2},
                                                  .padding = {1, 2},
                                                  .dilation = {1, 2},
                                                  .output_padding = {2, 1},
                                                  .groups = 2}),
      transpose_case("conv_transpose2d/no_batch", {.stride = 2}),
      {"conv_transpose1d",
       [](const Inputs& in) {
         return conv_transpose1d(in[0], in[1], in[2],
                                 {.stride = 2, .padding = 1, .output_padding = 1});
       }},
      interpolate_case("interpolate/nearest_larger", {7, 10}, near),
      interpolate_case("interpolate/nearest_smaller", {3, 2}, near),
      interpolate_case("interpolate/nearest_one", {1, 5}, near),
      interpolate_case("interpolate/bilinear_larger", {7, 10}, edges),
      interpolate_case("interpolate/bilinear_smaller", {3, 2}, edges),
      interpolate_case("interpolate/bilinear_one", {1, 5}, edges),
      interpolate_case("interpolate/bilinear_larger_corners", {7, 10}, corners),
      interpolate_case("interpolate/bilinear_smaller_corners", {3, 2}, corners),
      interpolate_case("interpolate/bilinear_one_corners", {1, 5}, corners),
      interpolate1d_case("interpolate1d/nearest_larger", 11, near),
      interpolate1d_case("interpolate1d/linear_larger", 11, edges),
      interpolate1d_case("interpolate1d/linear_larger_corners", 11, corners),
      interpolate1d_case("interpolate1d/nearest_smaller", 3, near),
      interpolate1d_case("interpolate1d/linear_smaller", 3, edges),
      interpolate1d_case("interpolate1d/linear_smaller_corners", 3, corners),
      interpolate1d_case("interpolate1d/nearest_one", 1, near),
      interpolate1d_case("interpolate1d/linear_one", 1, edges),
      interpolate1d_case("interpolate1d/linear_one_corners", 1, corners),
      interpolate3d_case("interpolate3d/nearest_larger", {5, 7, 6}, near),
      interpolate3d_case("interpolate3d/linear_larger", {5, 7, 6}, edges),
      interpolate3d_case("interpolate3d/linear_larger_corners", {5, 7, 6}, corners),
      interpolate3d_case("interpolate3d/nearest_smaller", {2, 3, 1}, near),
      interpolate3d_case("interpolate3d/linear_smaller", {2, 3, 1}, edges),
      interpolate3d_case("interpolate3d/linear_smaller_corners", {2, 3, 1}, corners),
      interpolate3d_case("interpolate3d/nearest_mixed", {1, 9, 2}, near),
      interpolate3d_case("interpolate3d/linear_mixed", {1, 9, 2}, edges),
      interpolate3d_case("interpolate3d/linear_mixed_corners", {1, 9, 2}, corners),
      adaptive_case("adaptive_avg_pool2d/larger", {7, 10}),
      adaptive_case("adaptive_avg_pool2d/smaller", {3, 2}),
      adaptive_case("adaptive_avg_pool2d/one", {1, 5}),
      {"pixel_unshuffle", [](const Inputs& in) { return pixel_unshuffle(in[0], 2); }},
      {"pixel_shuffle", [](const Inputs& in) { return pixel_shuffle(in[0], 2); }},
  };
}

}  // namespace adret::test

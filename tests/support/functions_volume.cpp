// Cases of convolutions of sequences and volumes, of padding that keeps the size, and of pooling.
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/pool.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<FunctionCase>;

template <class Options>
using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Options&);

template <class Options>
FunctionCase conv_case(const char* name, Convolution<Options> function, const Options& options) {
  return {name, [=](const Inputs& in) {
            return function(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options);
          }};
}

template <class Size>
using Pool = Tensor (*)(const Tensor&, Size, const PoolOptions<Size>&);

template <class Size>
FunctionCase pool_case(const char* name, Pool<Size> function, Size kernel,
                       const PoolOptions<Size>& options) {
  return {name, [=](const Inputs& in) { return function(in[0], kernel, options); }};
}

template <class Size>
FunctionCase adaptive_case(const char* name, Tensor (*function)(const Tensor&, Size), Size size) {
  return {name, [=](const Inputs& in) { return function(in[0], size); }};
}

Cases convolution_cases() {
  const Pad same = Pad::same;
  return {
      conv_case<Conv1dOptions>("conv1d/same", conv1d, {.padding = same}),
      conv_case<Conv2dOptions>("conv2d/same", conv2d, {.padding = same, .dilation = {1, 2}}),
      conv_case<Conv2dOptions>("conv2d/same_at_both_ends", conv2d, {.padding = same, .groups = 2}),
      conv_case<Conv3dOptions>("conv3d", conv3d, {}),
      conv_case<Conv3dOptions>(
          "conv3d/strided", conv3d,
          {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .dilation = {1, 2, 1}, .groups = 2}),
      conv_case<Conv3dOptions>("conv3d/same", conv3d, {.padding = same, .dilation = {1, 1, 2}}),
      conv_case<Conv3dOptions>("conv3d/side_by_side", conv3d, {.stride = {2, 1, 1}}),
      conv_case<Conv3dOptions>("conv3d/whole_depth", conv3d, {.groups = 2}),
      conv_case<Conv3dOptions>("conv3d/flat", conv3d, {.stride = {2, 1, 1}}),
      conv_case<Conv3dOptions>("conv3d/no_batch", conv3d, {.padding = 1}),
      conv_case<ConvTranspose1dOptions>(
          "conv_transpose1d/strided", conv_transpose1d,
          {.stride = 3, .padding = 1, .dilation = 2, .output_padding = 2, .groups = 2}),
      conv_case<ConvTranspose3dOptions>("conv_transpose3d", conv_transpose3d, {}),
      conv_case<ConvTranspose3dOptions>("conv_transpose3d/strided", conv_transpose3d,
                                        {.stride = {3, 2, 1},
                                         .padding = {1, 1, 0},
                                         .dilation = {1, 1, 2},
                                         .output_padding = {2, 1, 0},
                                         .groups = 2}),
      conv_case<ConvTranspose3dOptions>("conv_transpose3d/side_by_side", conv_transpose3d,
                                        {.stride = 2}),
      conv_case<ConvTranspose3dOptions>("conv_transpose3d/no_batch", conv_transpose3d,
                                        {.stride = 2}),
  };
}

Cases pool_cases() {
  return {
      pool_case<int64_t>("max_pool1d", max_pool1d, 3, {.stride = 2, .padding = 1}),
      pool_case<int64_t>("max_pool1d/ceil", max_pool1d, 2, {.ceil_mode = true}),
      pool_case<int64_t>("avg_pool1d", avg_pool1d, 3, {.stride = 2, .padding = 1}),
      pool_case<int64_t>(
          "avg_pool1d/ceil", avg_pool1d, 4,
          {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      pool_case<Size3>("max_pool3d", max_pool3d, 2, {}),
      pool_case<Size3>("max_pool3d/overlapping", max_pool3d, 3,
                       {.stride = {1, 2, 2}, .padding = 1, .ceil_mode = true}),
      pool_case<Size3>("avg_pool3d", avg_pool3d, {2, 1, 3}, {}),
      pool_case<Size3>("avg_pool3d/padded", avg_pool3d, 3,
                       {.stride = 2, .padding = 1, .ceil_mode = true}),
      pool_case<Size3>("avg_pool3d/unpadded", avg_pool3d, 3,
                       {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      {"global_max_pool2d", [](const Inputs& in) { return global_max_pool2d(in[0]); }},
  };
}

Cases adaptive_cases() {
  return {
      adaptive_case<int64_t>("adaptive_avg_pool1d", adaptive_avg_pool1d, 3),
      adaptive_case<int64_t>("adaptive_avg_pool1d/larger", adaptive_avg_pool1d, 9),
      adaptive_case<Size3>("adaptive_avg_pool3d", adaptive_avg_pool3d, {2, 3, 6}),
      adaptive_case<Size3>("adaptive_avg_pool3d/larger", adaptive_avg_pool3d, {3, 1, 7}),
      adaptive_case<int64_t>("adaptive_max_pool1d", adaptive_max_pool1d, 3),
      adaptive_case<int64_t>("adaptive_max_pool1d/larger", adaptive_max_pool1d, 9),
      adaptive_case<Size2>("adaptive_max_pool2d", adaptive_max_pool2d, {3, 2}),
      adaptive_case<Size2>("adaptive_max_pool2d/larger", adaptive_max_pool2d, {7, 1}),
      adaptive_case<Size3>("adaptive_max_pool3d", adaptive_max_pool3d, {2, 3, 6}),
      adaptive_case<Size3>("adaptive_max_pool3d/larger", adaptive_max_pool3d, {3, 1, 7}),
  };
}

Cases image_pool_cases() {
  return {
      pool_case<Size2>("max_pool2d", max_pool2d, 2, {}),
      pool_case<Size2>("max_pool2d/overlapping", max_pool2d, 3,
                       {.stride = {2, 1}, .padding = {1, 0}}),
      pool_case<Size2>("max_pool2d/ceil", max_pool2d, {2, 3},
                       {.stride = 2, .padding = 1, .ceil_mode = true}),
      pool_case<Size2>("avg_pool2d", avg_pool2d, 2, {}),
      pool_case<Size2>("avg_pool2d/padded", avg_pool2d, {3, 2},
                       {.stride = 2, .padding = 1, .ceil_mode = true}),
      pool_case<Size2>("avg_pool2d/unpadded", avg_pool2d, {3, 2},
                       {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      {"global_avg_pool2d", [](const Inputs& in) { return global_avg_pool2d(in[0]); }},
  };
}

}  // namespace

std::vector<FunctionCase> volume_cases() {
  Cases all;
  for (const Cases& part :
       {convolution_cases(), pool_cases(), adaptive_cases(), image_pool_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace adret::test

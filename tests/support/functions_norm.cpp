// Cases of functions that normalise.
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/shape.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

Tensor both(const NormedSum& result) { return concatenate({result.sum, result.y}, 0); }

// x and as many parameters as there are.
Tensor optional(const Inputs& in, size_t i) { return i < in.size() ? in[i] : Tensor(); }

FunctionCase layer(const char* name, const LayerNormOptions& options) {
  return {name, [=](const Inputs& in) {
            return layer_norm(in[0], optional(in, 1), optional(in, 2), options);
          }};
}
FunctionCase rms(const char* name, const LayerNormOptions& options) {
  return {name, [=](const Inputs& in) { return rms_norm(in[0], optional(in, 1), options); }};
}
FunctionCase of_sum(const char* name, const LayerNormOptions& options) {
  return {name, [=](const Inputs& in) {
            return both(layer_norm_of_sum(in[0], in[1], optional(in, 2), optional(in, 3), options));
          }};
}
FunctionCase group(const char* name, int64_t groups, const GroupNormOptions& options) {
  return {name, [=](const Inputs& in) {
            return group_norm(in[0], groups, optional(in, 1), optional(in, 2), options);
          }};
}
FunctionCase instance(const char* name, const GroupNormOptions& options) {
  return {name, [=](const Inputs& in) {
            return instance_norm(in[0], optional(in, 1), optional(in, 2), options);
          }};
}
FunctionCase batch(const char* name, const BatchNormOptions& options) {
  return {name, [=](const Inputs& in) {
            BatchNormOptions all = options;
            all.residual = optional(in, 3);
            return batch_norm(in[0], optional(in, 1), optional(in, 2), {}, {}, all);
          }};
}
// With running statistics, as in evaluation.
Tensor batch_of_running(const Inputs& in) {
  const auto numbers = [&](const std::vector<double>& values) {
    return Tensor::from(values, {5}).to(in[0].dtype());
  };
  return batch_norm(in[0], in[1], in[2], numbers({0.5, -1, 0, 2, 0.25}),
                    numbers({1, 0.5, 2, 4, 0.125}), {.training = false});
}

}  // namespace

std::vector<FunctionCase> norm_cases() {
  return {
      layer("layer_norm", {}),
      layer("layer_norm/plain", {}),
      layer("layer_norm/weight", {}),
      layer("layer_norm/epsilon", {.epsilon = 0.5}),
      layer("layer_norm/dims", {.dims = 2}),
      layer("layer_norm/all", {.dims = 3}),
      layer("layer_norm/one", {.epsilon = 1}),
      layer("layer_norm/vectors", {}),
      rms("rms_norm", {}),
      rms("rms_norm/plain", {}),
      rms("rms_norm/dims", {.dims = 2}),
      of_sum("layer_norm_of_sum", {}),
      of_sum("layer_norm_of_sum/plain", {.dims = 2}),
      {"rms_norm_of_sum",
       [](const Inputs& in) { return both(rms_norm_of_sum(in[0], in[1], in[2])); }},
      group("group_norm", 4, {}),
      group("group_norm/plain", 2, {}),
      group("group_norm/one", 1, {}),
      group("group_norm/rows", 2, {}),
      group("group_norm/odd", 3, {.epsilon = 1e-3}),
      instance("instance_norm", {}),
      instance("instance_norm/plain", {}),
      batch("batch_norm", {}),
      batch("batch_norm/plain", {}),
      batch("batch_norm/epsilon", {.epsilon = 0.5}),
      batch("batch_norm/rows", {}),
      {"batch_norm/running", batch_of_running},
      batch("batch_norm/residual", {.activation = Activation::relu}),
  };
}

}  // namespace adret::test

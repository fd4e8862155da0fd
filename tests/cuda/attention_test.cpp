// cuDNN's attention: on GPUs that are only described, which calls it is asked about, and on a GPU
// its results beside ours.
#include <adret/core/backend.h>
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_plan.h>
#include <adret/core/cuda/check.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "on_gpu.h"
#include "tests/support/files.h"

namespace adret::cuda {
namespace {

Descriptor device(const std::string& name) {
  return describe_device(
      test::read_file((test::source_dir() / "tests/cuda/devices" / (name + ".json")).string()));
}

// Engines that are compiled at run time are there only where the driver's library is.
bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

AttentionShape gpt2() {
  return {.samples = 16,
          .heads = 12,
          .queries = 1024,
          .keys = 1024,
          .width = 64,
          .scale = 0.125,
          .dtype = DType::bf16,
          .causal = true,
          .packed = true,
          .backward = false,
          .with_log_sum_exp = true};
}

TEST(DevicelessAttention, HasEnginesForTheShapesOfModels) {
  if (!has_driver()) GTEST_SKIP() << "needs libcuda.so.1, of a driver or a toolkit's stub";
  AttentionShape vit = gpt2(), long_heads = gpt2();
  vit.samples = 128;
  vit.heads = 6;
  vit.queries = vit.keys = 197;
  vit.causal = false;
  long_heads.width = 128;
  long_heads.packed = false;
  long_heads.dtype = DType::f16;
  for (const char* const name : {"sm_80", "sm_90"}) {
    const Descriptor gpu = device(name);
    for (AttentionShape shape : {gpt2(), vit, long_heads}) {
      for (const bool backward : {false, true}) {
        shape.backward = backward;
        const Graph graph = attention_graph(shape, nullptr, &gpu);
        const std::vector<EngineConfig> engines = graph.suggestions(CUDNN_HEUR_MODE_A);
        ASSERT_FALSE(engines.empty()) << name << " " << to_string(shape);
        const EngineConfig again = graph.config(to_string(engines[0]));
        EXPECT_EQ(to_string(again), to_string(engines[0]));
      }
    }
  }
}

// The gradients of scores lie in the workspace, 2 bytes each: nothing is summed as blocks come.
TEST(DevicelessAttention, KeepsTheScoresGradients) {
  if (!has_driver()) GTEST_SKIP() << "needs libcuda.so.1, of a driver or a toolkit's stub";
  const Descriptor gpu = device("sm_90");
  AttentionShape shape = gpt2();
  shape.backward = true;
  const Graph graph = attention_graph(shape, nullptr, &gpu);
  const std::vector<EngineConfig> engines = graph.suggestions(CUDNN_HEUR_MODE_A);
  ASSERT_FALSE(engines.empty());
  for (const EngineConfig& engine : engines) {
    EXPECT_GE(engine.workspace, int64_t(16) * 12 * 1024 * 1024 * 2) << to_string(engine);
  }
}

kernels::AttentionForward forward(const Tensor& qkv, const Tensor& y) {
  return {.q = qkv, .y = y, .attention = {.scale = 0.125}};
}

TEST(AttentionCall, IsForLargePlainOnesInSixteenBits) {
  const TensorOptions bf16{.dtype = DType::bf16};
  const Tensor qkv = Tensor::empty({8, 256, 3, 4, 64}, bf16),
               y = Tensor::empty({8, 256, 4, 64}, bf16);
  const std::optional<AttentionCall> call = attention_call(forward(qkv, y));
  ASSERT_TRUE(call);
  EXPECT_EQ(call->operands.size(), 4u);
  const auto at = [&](size_t i) { return static_cast<char*>(call->operands[i].second); };
  EXPECT_EQ(at(1) - at(0), 4 * 64 * 2);
  EXPECT_EQ(at(2) - at(0), 2 * 4 * 64 * 2);

  kernels::AttentionForward other = forward(qkv, y);
  other.attention.dropout = 0.1;
  EXPECT_FALSE(attention_call(other));
  other = forward(qkv, y);
  const Tensor lengths = Tensor::empty({8}, {.dtype = DType::i32});
  other.lengths = lengths;
  EXPECT_FALSE(attention_call(other));
  const Tensor f32 = Tensor::empty({8, 256, 3, 4, 64}), f32_y = Tensor::empty({8, 256, 4, 64});
  EXPECT_FALSE(attention_call(forward(f32, f32_y)));
  const Tensor small = Tensor::empty({1, 64, 3, 4, 64}, bf16),
               small_y = Tensor::empty({1, 64, 4, 64}, bf16);
  EXPECT_FALSE(attention_call(forward(small, small_y)));
}

// -- on a GPU ------------------------------------------------------------------------------------

struct Sizes {
  int64_t samples, queries, keys, heads, width;
  bool packed, causal;
  DType dtype;
};

class Attention {
 public:
  explicit Attention(const Sizes& s) : s_(s), q_(random(q_shape())), dy_(random(y_shape())) {
    if (s.packed) return;
    k_ = random({s.samples, s.keys, s.heads, s.width});
    v_ = random({s.samples, s.keys, s.heads, s.width});
  }
  struct Outputs {
    Tensor y, log_sum_exp, dq, dk, dv;
  };
  // All NaN, so that what is not written is seen.
  Outputs outputs() const {
    Outputs out{nan(y_shape(), s_.dtype),
                nan({s_.samples, s_.heads, s_.queries}, DType::f32),
                nan(q_shape(), s_.dtype),
                {},
                {}};
    if (s_.packed) return out;
    out.dk = nan(k_.shape(), s_.dtype);
    out.dv = nan(v_.shape(), s_.dtype);
    return out;
  }
  kernels::AttentionForward forward(const Outputs& out) const {
    return {.q = q_,
            .k = k_,
            .v = v_,
            .y = out.y,
            .log_sum_exp = out.log_sum_exp,
            .attention = params()};
  }
  // With another pass's y and log_sum_exp.
  kernels::AttentionBackward backward(const Outputs& before, const Outputs& out) const {
    return {.q = q_,
            .k = k_,
            .v = v_,
            .y = before.y,
            .log_sum_exp = before.log_sum_exp,
            .dy = dy_,
            .dq = out.dq,
            .dk = out.dk,
            .dv = out.dv,
            .attention = params()};
  }

 private:
  kernels::AttentionParams params() const {
    return {.scale = 1 / std::sqrt(double(s_.width)), .causal = s_.causal};
  }
  Shape q_shape() const {
    if (s_.packed) return {s_.samples, s_.queries, 3, s_.heads, s_.width};
    return y_shape();
  }
  Shape y_shape() const { return {s_.samples, s_.queries, s_.heads, s_.width}; }
  Tensor random(const Shape& shape) {
    const Tensor x = Tensor::empty(shape, {.dtype = s_.dtype, .device = Device::cuda()});
    const Tensor step = Tensor::zeros({}, {.dtype = DType::i64, .device = Device::cuda()});
    run(kernels::RandomUniform{
        .y = x, .step = step, .key = {.call = calls_++}, .low = -2, .high = 2});
    return x;
  }
  static Tensor nan(const Shape& shape, DType dtype) {
    return Tensor::full(shape, NAN, {.dtype = dtype, .device = Device::cuda()});
  }

  Sizes s_;
  uint32_t calls_ = 0;
  Tensor q_, dy_, k_, v_;
};

// Both round weights and their gradients to 16 bits before they multiply them, in another order.
void expect_alike(const Tensor& actual, const Tensor& expected, const std::string& what) {
  if (!expected.defined()) return;
  const auto values = [](const Tensor& x) {
    return x.to(Device::cpu()).to(DType::f64).to_vector<double>();
  };
  const std::vector<double> a = values(actual), e = values(expected);
  double largest = 0, difference = 0;
  for (size_t i = 0; i < e.size(); ++i) {
    largest = std::max(largest, std::abs(e[i]));
    if (!(std::abs(a[i] - e[i]) <= difference)) difference = std::abs(a[i] - e[i]);
  }
  EXPECT_LE(difference, 0.015 * largest) << what;
}

// Runs the call by every engine; check(name) follows each run.
template <class Call, class Check>
void with_engines(Context& context, const Call& kernel, Check check) {
  const std::optional<AttentionCall> call = attention_call(kernel);
  ASSERT_TRUE(call) << to_string(Kernel(kernel));
  const Graph graph = attention_graph(call->shape, context.cudnn());
  std::vector<EngineConfig> engines = graph.suggestions(CUDNN_HEUR_MODE_A);
  EXPECT_FALSE(engines.empty()) << to_string(call->shape);
  for (EngineConfig& engine : engines) {
    AttentionPlan plan(std::move(engine), context.cudnn(), call->shape);
    plan.run(context, *call);
    ADRET_CHECK(cudaStreamSynchronize(context.compute));
    check(to_string(call->shape) + " by " + plan.name());
  }
}

using AttentionOnGpu = OnGpu<>;
TEST_F(AttentionOnGpu, PlansOfEveryEngineGiveTheResultsOfOurKernels) {
  for (const Sizes& sizes : {Sizes{16, 256, 256, 4, 64, true, true, DType::bf16},
                             Sizes{16, 197, 197, 6, 64, true, false, DType::bf16},
                             Sizes{4, 300, 512, 4, 128, false, false, DType::f16}}) {
    Attention attention(sizes);
    const Attention::Outputs ours = attention.outputs(), theirs = attention.outputs();
    backend_for(Device::cuda()).services().synchronize();
    attend(context(), attention.forward(ours));
    attend(context(), attention.backward(ours, ours));
    ADRET_CHECK(cudaStreamSynchronize(context().compute));
    with_engines(context(), attention.forward(theirs), [&](const std::string& name) {
      expect_alike(theirs.y, ours.y, name + " y");
      expect_alike(theirs.log_sum_exp, ours.log_sum_exp, name + " log_sum_exp");
    });
    with_engines(context(), attention.backward(ours, theirs), [&](const std::string& name) {
      expect_alike(theirs.dq, ours.dq, name + " dq");
      expect_alike(theirs.dk, ours.dk, name + " dk");
      expect_alike(theirs.dv, ours.dv, name + " dv");
    });
  }
}

TEST_F(AttentionOnGpu, ARaceLeavesTheResultsOfItsWinner) {
  Attention attention({16, 256, 256, 4, 64, true, true, DType::bf16});
  const Attention::Outputs ours = attention.outputs(), theirs = attention.outputs(),
                           again = attention.outputs();
  backend_for(Device::cuda()).services().synchronize();
  attend(context(), attention.forward(ours));
  attend(context(), attention.backward(ours, ours));
  AttentionPlans plans(context(), nullptr);
  ComputeMode mode = compute_mode();
  mode.plans = PlanSearch::measure;
  const ComputeModeScope measuring(mode);
  for (const Attention::Outputs& out : {theirs, again}) {
    const auto forward = attention.forward(out);
    const auto backward = attention.backward(ours, out);
    plans.run(*attention_call(forward), [&] { attend(context(), forward); });
    plans.run(*attention_call(backward), [&] { attend(context(), backward); });
  }
  ADRET_CHECK(cudaStreamSynchronize(context().compute));
  expect_alike(theirs.y, ours.y, "y");
  expect_alike(theirs.dq, ours.dq, "dq");
  const auto bits = [](const Tensor& x) {
    return x.to(Device::cpu()).to(DType::f32).to_vector<float>();
  };
  EXPECT_EQ(bits(again.y), bits(theirs.y));
  EXPECT_EQ(bits(again.dq), bits(theirs.dq));
}

}  // namespace
}  // namespace adret::cuda

// cuDNN's attention on GPUs that are only described, and which calls it is asked about.
#include <adret/core/cuda/attention_plan.h>
#include <adret/core/tensor.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/files.h"
#include "tests/support/mirror.h"

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
  const Descriptor gpu = device("sm_90");
  AttentionShape shape = gpt2();
  shape.backward = true;
  const Graph graph = attention_graph(shape, nullptr, &gpu);
  for (const EngineConfig& engine : graph.suggestions(CUDNN_HEUR_MODE_A)) {
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

}  // namespace
}  // namespace adret::cuda

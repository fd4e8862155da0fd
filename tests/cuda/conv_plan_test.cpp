// Plans of convolutions on a GPU: from a race, from disk, under limits, while capturing.
#include <adret/core/backend.h>
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/conv_plan.h>
#include <adret/core/cuda/graph_capture.h>
#include <adret/core/cuda/plan_file.h>
#include <adret/core/error.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "on_gpu.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret::cuda {
namespace {

using test::TempDir;

using ConvPlanTest = OnGpu<>;

// Device memory with values in it, of one f32 convolution in one direction.
class Conv {
 public:
  Conv(int64_t n, int64_t size, int64_t channels, int64_t outputs, int64_t kernel,
       ConvDirection direction = ConvDirection::forward) {
    problem = {.n = n,
               .h = size,
               .w = size,
               .c = channels,
               .o = outputs,
               .kh = kernel,
               .kw = kernel,
               .oh = size,
               .ow = size,
               .stride_h = 1,
               .stride_w = 1,
               .padding_h = (kernel - 1) / 2,
               .padding_w = (kernel - 1) / 2,
               .dilation_h = 1,
               .dilation_w = 1,
               .groups = 1,
               .workspace_limit = int64_t(512) << 20,
               .x_alignment = 16,
               .weight_alignment = 16,
               .y_alignment = 16,
               .bias_alignment = 0,
               .direction = direction,
               .dtype = DType::f32,
               .math = MathMode::tf32,
               .search = PlanSearch::measure,
               .relu = false,
               .deterministic = false,
               .unused = {}};
    sizes_[0] = size_t(n * size * size * channels);
    sizes_[1] = size_t(outputs * kernel * kernel * channels);
    sizes_[2] = size_t(n * size * size * outputs);
    for (int i = 0; i < 3; ++i) {
      ADRET_CHECK(cudaMalloc(memory_[i].out(), sizes_[i] * 4));
      std::vector<float> values(sizes_[i]);
      for (size_t k = 0; k < values.size(); ++k) values[k] = float(int(k * 37 % 101) - 50) / 50;
      ADRET_CHECK(cudaMemcpy(memory_[i], values.data(), sizes_[i] * 4, cudaMemcpyHostToDevice));
    }
  }

  ConvOperands operands() const { return {memory_[0], memory_[1], memory_[2]}; }
  std::vector<float> result() const {
    static constexpr int outputs[] = {2, 0, 1};
    const int output = outputs[size_t(problem.direction)];
    std::vector<float> values(sizes_[output]);
    ADRET_CHECK(cudaDeviceSynchronize());
    ADRET_CHECK(
        cudaMemcpy(values.data(), memory_[output], values.size() * 4, cudaMemcpyDeviceToHost));
    return values;
  }

  ConvProblem problem;

 private:
  static void free_memory(void* data) { cudaFree(data); }
  Handle<void*, free_memory> memory_[3];
  size_t sizes_[3];
};

void expect_close(const std::vector<float>& a, const std::vector<float>& b, float scale) {
  ASSERT_EQ(a.size(), b.size());
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_LT(worst, scale);
}

TEST_F(ConvPlanTest, AChoiceComesBackFromDisk) {
  const TempDir dir;
  std::map<std::string, std::string> chosen;
  for (const auto direction :
       {ConvDirection::forward, ConvDirection::backward_input, ConvDirection::backward_weight}) {
    const Conv conv(16, 32, 64, 64, 3, direction);
    PlanFile file(dir.path(), "conv", "test");
    ConvPlanCache cache(context(), &file);
    chosen[to_string(conv.problem)] = cache.find(conv.problem, conv.operands()).name();
  }
  PlanFile file(dir.path(), "conv", "test");
  for (const auto& [key, name] : chosen) EXPECT_EQ(file.find(key), "measured " + name);
  for (const auto direction :
       {ConvDirection::forward, ConvDirection::backward_input, ConvDirection::backward_weight}) {
    for (const auto search : {PlanSearch::measure, PlanSearch::heuristic}) {
      Conv conv(16, 32, 64, 64, 3, direction);
      conv.problem.search = search;
      ConvPlanCache cache(context(), &file);
      EXPECT_EQ(cache.find(conv.problem, conv.operands()).name(), chosen[to_string(conv.problem)]);
      cache.run(conv.problem, conv.operands());
      EXPECT_FALSE(conv.result().empty());
    }
  }
}

TEST_F(ConvPlanTest, AChoiceOnDiskThatIsNoneIsReplaced) {
  const TempDir dir;
  PlanFile file(dir.path(), "conv", "test");
  Conv conv(4, 32, 64, 64, 3);
  conv.problem.search = PlanSearch::heuristic;
  const std::string key = to_string(conv.problem);
  for (const char* damaged : {"", "measured", "measured cudnn engine 99999 knobs", "measured cudnn",
                              "suggested direct 77", "suggested cudnn engine 1 knobs 4:"}) {
    file.store(key, damaged);
    ConvPlanCache cache(context(), &file);
    const std::string name = cache.find(conv.problem, conv.operands()).name();
    EXPECT_EQ(file.find(key), "suggested " + name);
  }
}

TEST_F(ConvPlanTest, ASuggestionOnDiskIsNotTakenForAMeasurement) {
  const TempDir dir;
  PlanFile file(dir.path(), "conv", "test");
  Conv conv(4, 32, 64, 64, 3);
  ConvPlanCache cache(context(), &file);
  conv.problem.search = PlanSearch::heuristic;
  cache.find(conv.problem, conv.operands());
  EXPECT_TRUE(file.find(to_string(conv.problem))->starts_with("suggested "));
  conv.problem.search = PlanSearch::measure;
  cache.find(conv.problem, conv.operands());
  EXPECT_TRUE(file.find(to_string(conv.problem))->starts_with("measured "));
}

TEST_F(ConvPlanTest, DeterministicPlansGiveTheSameBits) {
  for (const auto direction :
       {ConvDirection::forward, ConvDirection::backward_input, ConvDirection::backward_weight}) {
    Conv conv(16, 16, 48, 40, 3, direction);
    conv.problem.deterministic = true;
    ConvPlanCache cache(context(), nullptr);
    cache.run(conv.problem, conv.operands());
    const std::vector<float> first = conv.result();
    for (int i = 0; i < 5; ++i) {
      cache.run(conv.problem, conv.operands());
      const std::vector<float> again = conv.result();
      EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * 4), 0);
    }
  }
}

TEST_F(ConvPlanTest, AllPlansOfAProblemAgree) {
  for (const auto direction :
       {ConvDirection::forward, ConvDirection::backward_input, ConvDirection::backward_weight}) {
    const Conv conv(8, 14, 6, 16, 5, direction);
    ConvPlanCache cache(context(), nullptr);
    cache.run(conv.problem, conv.operands());
    const std::vector<float> reference = conv.result();
    float largest = 0;
    for (const float value : reference) largest = std::max(largest, std::abs(value));
    const TempDir dir;
    for (const ConvSample& sample : cache.measure_all(conv.problem, conv.operands())) {
      PlanFile file(dir.path(), "conv", sample.plan);
      file.store(to_string(conv.problem), "measured " + sample.plan);
      ConvPlanCache one(context(), &file);
      ASSERT_EQ(one.find(conv.problem, conv.operands()).name(), sample.plan);
      one.run(conv.problem, conv.operands());
      SCOPED_TRACE(sample.plan);
      expect_close(conv.result(), reference, 0.01f * largest);  // TF32 rounds to 10 bits
    }
  }
}

TEST_F(ConvPlanTest, WorkspaceStaysWithinTheLimit) {
  for (const auto search : {PlanSearch::heuristic, PlanSearch::measure}) {
    for (const int64_t limit : {int64_t(0), int64_t(1) << 20}) {
      for (const auto direction : {ConvDirection::forward, ConvDirection::backward_input,
                                   ConvDirection::backward_weight}) {
        Conv conv(64, 28, 3, 32, 3, direction);
        conv.problem.search = search;
        conv.problem.workspace_limit = limit;
        ConvPlanCache cache(context(), nullptr);
        EXPECT_LE(cache.find(conv.problem, conv.operands()).workspace(), size_t(limit));
        cache.run(conv.problem, conv.operands());
        conv.result();
      }
    }
  }
}

// What the pool may still get is taken away, so that the plan's workspace does not fit.
TEST_F(ConvPlanTest, AFullGpuFallsToAPlanWithLessWorkspace) {
  Conv conv(128, 56, 3, 64, 7, ConvDirection::backward_weight);
  conv.problem.search = PlanSearch::heuristic;
  ConvPlanCache cache(context(), nullptr);
  const size_t before = cache.find(conv.problem, conv.operands()).workspace();
  cache.run(conv.problem, conv.operands());
  const std::vector<float> expected = conv.result();
  const size_t left = size_t(24) << 20;  // kernels that are loaded need some, too
  if (before <= left) GTEST_SKIP() << "the plan needs only " << before << " bytes of workspace";

  backend_for(Device::cuda()).services().pool().free_cache();
  void* slack = nullptr;
  ADRET_CHECK(cudaMalloc(&slack, left));
  size_t free = 0, total = 0;
  ADRET_CHECK(cudaMemGetInfo(&free, &total));
  std::vector<void*> taken;
  for (size_t part = free; part >= (size_t(1) << 20); part /= 2) {
    void* data = nullptr;
    while (cudaMalloc(&data, part) == cudaSuccess) taken.push_back(data);
    cudaGetLastError();
  }
  cudaFree(slack);
  cache.run(conv.problem, conv.operands());
  const std::vector<float> actual = conv.result();
  for (void* data : taken) cudaFree(data);
  EXPECT_LT(cache.find(conv.problem, conv.operands()).workspace(), before);
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  expect_close(actual, expected, 0.01f * largest);
}

TEST_F(ConvPlanTest, NothingIsChosenWhileCapturing) {
  const TempDir dir;
  PlanFile file(dir.path(), "conv", "test");
  const Conv conv(16, 32, 64, 64, 3);
  ConvPlanCache cache(context(), &file);
  MemoryPool& pool = backend_for(Device::cuda()).services().pool();
  const auto work = [&](auto&...) { cache.run(conv.problem, conv.operands()); };
  test::expect_error<DeviceError>(
      [&] { return capture(context(), pool, work) != nullptr; },
      "[capture] a convolution's plan is chosen inside a captured step; run the same calls once");
  EXPECT_EQ(cache.size(), 0u);
  work();
  const std::vector<float> expected = conv.result();
  const auto graph = capture(context(), pool, work);
  ADRET_CHECK(cudaMemset(conv.operands().y, 0, 1024));
  ADRET_CHECK(cudaDeviceSynchronize());
  graph->launch();
  EXPECT_EQ(conv.result(), expected);
}

TEST_F(ConvPlanTest, PlansAreDroppedBeyondABound) {
  Conv conv(2, 8, 1, 4, 3);
  conv.problem.search = PlanSearch::heuristic;
  ConvPlanCache cache(context(), nullptr);
  for (int64_t n = 1; n < 6000; ++n) {
    ConvProblem problem = conv.problem;
    problem.n = n;
    cache.find(problem, conv.operands());
  }
  EXPECT_LE(cache.size(), ConvPlanCache::most_plans);
  EXPECT_GE(cache.size(), ConvPlanCache::most_plans / 2);
  cache.run(conv.problem, conv.operands());  // one of those that went
  conv.result();
}

}  // namespace
}  // namespace adret::cuda

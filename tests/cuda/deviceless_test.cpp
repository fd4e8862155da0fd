// What cuDNN would run on GPUs that are only described: an engine for every convolution that the
// models and ResNet-50 need, and a whole installation.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/loss.h>
#include <adret/core/cuda/conv_problem.h>
#include <adret/core/kernels/kernel.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mnist_cnn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/resnet50_convs.h"

namespace adret::cuda {
namespace {

// Keeps the convolutions of what runs, and computes nothing.
class ConvRecorder : public Decorator {
 public:
  void run(const Kernel& call) override {
    std::visit(
        [this](const auto& kernel) {
          if constexpr (requires { conv_call(kernel); }) add(kernel);
        },
        call.any());
  }
  std::vector<ConvProblem> problems;

 private:
  template <class K>
  void add(const K& kernel) {
    if constexpr (requires { kernel.dweight; }) {
      if (!kernel.dweight.defined()) return;
    }
    ConvProblem problem = conv_call(kernel).problem;
    problem.x_alignment = problem.weight_alignment = problem.y_alignment = 16;
    if (problem.bias_alignment) problem.bias_alignment = 16;
    if (seen_.insert(to_string(problem)).second) problems.push_back(problem);
  }
  std::set<std::string> seen_;
};

template <class Model>
void record_step(int64_t batch) {
  Model model;
  const Tensor images = Tensor::empty({batch, 28, 28, 1});
  const Tensor labels = Tensor::empty({batch}, {.dtype = DType::i32});
  cross_entropy(model(images), labels).backward();
}

void record_resnet50(int64_t batch) {
  for (const test::SquareConv& c : test::resnet50_convs) {
    const Tensor x = Tensor::empty({batch, c.size, c.size, c.channels});
    const Tensor weight = Tensor::empty({c.outputs, c.kernel, c.kernel, c.channels});
    const Tensor y = Tensor::empty({batch, c.out(), c.out(), c.outputs});
    const Tensor bias = Tensor::empty({c.outputs});
    const kernels::Conv2dParams params = c.params();
    using kernels::Activation;
    run(kernels::Conv2dForward{.x = x, .weight = weight, .bias = {}, .y = y, .conv = params});
    run(kernels::Conv2dForward{.x = x,
                               .weight = weight,
                               .bias = bias,
                               .y = y,
                               .conv = params,
                               .activation = Activation::relu});
    run(kernels::Conv2dBackwardInput{.dy = y, .weight = weight, .dx = x, .conv = params});
    run(kernels::Conv2dBackwardWeight{
        .x = x, .dy = y, .dweight = weight, .dbias = {}, .conv = params});
  }
}

const std::vector<ConvProblem>& all_problems() {
  static const std::vector<ConvProblem> problems = [] {
    ConvRecorder recorder;
    for (const int64_t batch : {1, 64, 512}) {
      record_step<LeNet>(batch);
      record_step<MnistCnn>(batch);
    }
    record_resnet50(32);
    return recorder.problems;
  }();
  return problems;
}

Descriptor device(const std::string& name) {
  return describe_device(
      test::read_file(std::string(ADRET_SOURCE_DIR) + "/tests/cuda/devices/" + name + ".json"));
}

// The engines that need no compiler and are allowed for the problem, with the bias in them or in a
// kernel of ours behind.
std::vector<EngineConfig> engines(const ConvProblem& problem, const Descriptor& device) {
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const bool fused : {true, false}) {
      if (!fused && !problem.has_bias()) continue;
      std::vector<EngineConfig> all =
          Graph(graph_of(problem, fused), nullptr, &device).suggestions(mode);
      std::erase_if(all, [&](const EngineConfig& engine) {
        return engine.is_compiled_at_run_time() || !is_allowed(engine, problem);
      });
      if (!all.empty()) return all;
    }
  }
  return {};
}

struct Where {
  const char* device;
  DType dtype;
};
void PrintTo(const Where& where, std::ostream* out) { *out << where.device << " " << where.dtype; }

class Deviceless : public ::testing::TestWithParam<Where> {};

// f32 as it is by default: exact, without tensor cores.
TEST_P(Deviceless, AnEngineForEveryConvolution) {
  const Descriptor gpu = device(GetParam().device);
  size_t fewest = 1000;
  for (ConvProblem problem : all_problems()) {
    problem.dtype = GetParam().dtype;
    const size_t count = engines(problem, gpu).size();
    EXPECT_GT(count, 0u) << to_string(problem);
    fewest = std::min(fewest, count);
  }
  std::printf("  %zu convolutions, at least %zu engines each\n", all_problems().size(), fewest);
}

INSTANTIATE_TEST_SUITE_P(Gpus, Deviceless,
                         ::testing::Values(Where{"sm_75", DType::f32}, Where{"sm_75", DType::f16},
                                           Where{"sm_80", DType::f32}, Where{"sm_80", DType::f16},
                                           Where{"sm_80", DType::bf16}, Where{"sm_89", DType::f32},
                                           Where{"sm_89", DType::f16}, Where{"sm_89", DType::bf16},
                                           Where{"sm_90", DType::f32}, Where{"sm_90", DType::f16},
                                           Where{"sm_90", DType::bf16}),
                         [](const auto& test) {
                           return std::string(test.param.device) + "_" + name(test.param.dtype);
                         });

size_t count_engines() {
  const Descriptor gpu = device("sm_90");
  size_t count = 0;
  for (ConvProblem problem : all_problems()) {
    problem.dtype = DType::bf16;
    for (const EngineConfig& engine :
         Graph(graph_of(problem, true), nullptr, &gpu).suggestions(CUDNN_HEUR_MODE_A)) {
      count += !engine.is_compiled_at_run_time();
    }
  }
  return count;
}

// cuDNN does without the parts of itself that it does not find: few engines are left then.
constexpr size_t enough_engines = 2500;  // of 3800 that cuDNN 9.19 has

TEST(DevicelessInstallation, HasItsPrecompiledEngines) {
  const size_t count = count_engines();
  std::printf("  %zu precompiled engines\n", count);
  EXPECT_GT(count, enough_engines);
}

// A folder of the search path with a foreign part of cuDNN in it costs nothing.
TEST(DevicelessInstallation, AnEmptyHeuristicLibraryEarlierInThePathChangesNothing) {
  const test::TempDir dir;
  dir.write("libcudnn_heuristic.so.9", "");
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string path =
      dir.path().string() + (before && *before ? std::string(":") + before : "");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    execl("/proc/self/exe", "test", "--gtest_filter=DevicelessInstallation.Has*",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(DevicelessPlan, AnEngineComesBackFromItsText) {
  const Descriptor gpu = device("sm_90");
  for (const auto& [direction, with_bias] :
       {std::pair(ConvDirection::forward, true), std::pair(ConvDirection::forward, false),
        std::pair(ConvDirection::backward_input, false),
        std::pair(ConvDirection::backward_weight, false)}) {
    for (ConvProblem problem : all_problems()) {
      if (problem.direction != direction || problem.has_bias() != with_bias) continue;
      problem.dtype = DType::bf16;
      const Graph graph(graph_of(problem, true), nullptr, &gpu);
      const std::vector<EngineConfig> engines = graph.suggestions(CUDNN_HEUR_MODE_A);
      ASSERT_FALSE(engines.empty());
      std::set<std::string> texts;
      for (const EngineConfig& engine : engines) {
        texts.insert(to_string(engine));
        const Graph again(graph_of(problem, true), nullptr, &gpu);
        const EngineConfig same = again.config(to_string(engine));
        EXPECT_EQ(to_string(same), to_string(engine));
        EXPECT_LE(same.workspace, engine.workspace + 1024);  // cuDNN counts some in two ways
        EXPECT_EQ(same.numerical_notes, engine.numerical_notes);
        EXPECT_EQ(same.behavior_notes, engine.behavior_notes);
      }
      EXPECT_EQ(texts.size(), engines.size()) << "knobs tell them apart: " << *texts.begin();
      break;
    }
  }
}

TEST(DevicelessPlan, DamagedTextsAreRefused) {
  const Descriptor gpu = device("sm_90");
  ConvProblem problem = all_problems().front();
  const Graph graph(graph_of(problem, true), nullptr, &gpu);
  for (const char* text :
       {"", "engine", "engine x knobs", "engine 11 knobs 2",
        "engine 11 knobs 2:", "engine 11 knobs ", "engine 11 knobs 2:4,3:0", "engine 123456 knobs",
        "engine 11 knobs 9999:1", "engine -1 knobs", "engine 99999999999999999999 knobs"}) {
    EXPECT_THROW(graph.config(text), DeviceError) << text;
  }
}

TEST(DevicelessPlan, WhatTheComputeModeForbidsIsLeftOut) {
  const Descriptor gpu = device("sm_90");
  size_t tensor_core = 0, not_deterministic = 0, with_workspace = 0;
  for (ConvProblem problem : all_problems()) {
    const Graph graph(graph_of(problem, true), nullptr, &gpu);
    for (const EngineConfig& engine : graph.suggestions(CUDNN_HEUR_MODE_A)) {
      ConvProblem exact = problem, fast = problem, deterministic = problem, small = problem;
      fast.math = deterministic.math = small.math = MathMode::tf32;
      deterministic.deterministic = true;
      small.workspace_limit = 0;
      if (engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) {
        ++tensor_core;
        EXPECT_FALSE(is_allowed(engine, exact));
      }
      if (engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) {
        ++not_deterministic;
        EXPECT_FALSE(is_allowed(engine, deterministic));
      }
      if (engine.workspace > 0) {
        ++with_workspace;
        EXPECT_FALSE(is_allowed(engine, small));
      }
      EXPECT_FALSE(engine.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
                   is_allowed(engine, fast));
    }
  }
  EXPECT_GT(tensor_core, 0u);
  EXPECT_GT(not_deterministic, 0u);
  EXPECT_GT(with_workspace, 0u);
}

}  // namespace
}  // namespace adret::cuda

// Kernels with indices on a second device: captured, and where nobody looks at the indices.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/gradients.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct Indexing : OnSecondDevice {
  DeviceServices& services = backend_for(second).services();
};

// Few of the rows come often, as words do.
Tensor random_rows(int64_t count, int64_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(int64_t(random() % (random() % uint64_t(rows) + 1)));
  }
  return Tensor::from(values, {count});
}

// The table and its gradient, a sort and a padding, as one list of calls.
struct Calls {
  static constexpr int64_t rows = 300, columns = 24, count = 5000;
  Tensor indices, table, picked, gradient, added, sorted, places, padded;

  Calls()
      : indices(Tensor::zeros({count}, {DType::i64, second})),
        table(sequence({rows, columns}).to(DType::f32).to(second)),
        picked(Tensor::zeros({count, columns}, {.device = second})),
        gradient(Tensor::zeros({rows, columns}, {.device = second})),
        added(gradient.clone()),
        sorted(picked.clone()),
        places(Tensor::zeros({count, columns}, {DType::i64, second})),
        padded(Tensor::zeros({count + 2, columns}, {.device = second})) {}

  void run() const {
    adret::run(kernels::Gather{.x = table, .indices = indices, .y = picked});
    adret::run(kernels::Scatter{
        .x = picked, .indices = indices, .y = gradient, .mode = kernels::ScatterMode::sum});
    adret::run(kernels::Scatter{.x = picked, .indices = indices, .y = added});
    adret::run(kernels::Sort{.x = picked, .y = sorted, .indices = places, .dim = 0});
    kernels::Remap remap{.x = sorted, .y = padded};
    remap.remap.start = {-1, 0};
    remap.remap.step = {1, 1};
    adret::run(remap);
  }
  std::vector<double> results() const {
    std::vector<double> all;
    for (const Tensor& result : {gradient, added, sorted, places, padded}) {
      for (const double value : values_of(result)) all.push_back(value);
    }
    return all;
  }
};

TEST_F(Indexing, HasTheSameBitsCapturedAndInEveryRun) {
  const NoGrad guard;
  const Calls eager, again, captured;
  captured.run();
  fill_(captured.added, 0);
  const std::unique_ptr<DeviceGraph> graph = services.capture([&] { captured.run(); });
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const Tensor indices = random_rows(Calls::count, Calls::rows, seed).to(second);
    for (const Calls* calls : {&eager, &again, &captured}) copy_(calls->indices, indices);
    eager.run();
    again.run();
    if (graph) {
      graph->launch();
    } else {
      captured.run();  // a device without graphs
    }
    const std::vector<double> expected = eager.results();
    ASSERT_EQ(again.results(), expected) << seed;
    ASSERT_EQ(captured.results(), expected) << seed;
  }
}

TEST_F(Indexing, OutsideGivesNaNAndGoesNowhere) {
  Tensor weight = sequence({3, 2}).to(DType::f32).to(second);
  weight.set_requires_grad(true);
  const Tensor indices = Tensor::from<int64_t>({1, 3, -1}, {3}).to(second);
  const Tensor y = embedding(indices, weight);
  const std::vector<double> table = values_of(weight), rows = values_of(y);
  EXPECT_EQ(rows[0], table[2]);
  for (size_t i = 2; i < rows.size(); ++i) EXPECT_TRUE(std::isnan(rows[i])) << i;
  const Tensor dy = Tensor::ones({3, 2}, {.device = second});
  const Tensor dweight = grad({y}, {weight}, {.grad_outputs = {dy}})[0];
  EXPECT_EQ(values_of(dweight), (std::vector<double>{0, 0, 1, 1, 0, 0}));
  const Tensor counted = index_add(Tensor::zeros({3, 2}, {.device = second}), 0, indices, dy);
  EXPECT_EQ(values_of(counted), (std::vector<double>{0, 0, 1, 1, 0, 0}));
}

}  // namespace
}  // namespace adret

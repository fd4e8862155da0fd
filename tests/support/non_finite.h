// A training in which one sample of one batch makes a step that is not finite, on any device.
#pragma once

#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/adam.h>
#include <adret/train/trainer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/state_bytes.h"

namespace adret::test {

// exp(90) is infinite in f32.
struct Exponential : Layer<Exponential> {
  Tensor forward(const Tensor& x) { return exp(x); }
};

struct Explosive : Layer<Explosive> {
  BatchNorm1d& norm = add("norm", BatchNorm1d(2));
  Exponential& exponential = add("exponential", Exponential());
  Dropout& dropout = add("dropout", Dropout(0.2));
  Linear& head = add("head", Linear(2, 3));
  Tensor forward(const Tensor& x) { return head(exponential(x) + dropout(norm(x))); }
};

// 40 samples, of which one may be odd.
inline TensorDataset points(int64_t odd_sample = -1) {
  std::vector<float> values;
  std::vector<int32_t> labels;
  for (int i = 0; i < 40; ++i) {
    const float x = std::sin(float(3 * i)), y = std::cos(float(5 * i));
    values.insert(values.end(), {x, i == odd_sample ? 90.f : y});
    labels.push_back(i % 3);
  }
  return TensorDataset(Tensor::from(values, {40, 2}), Tensor::from(labels, {40}), 3);
}

struct ExplosiveTraining {
  explicit ExplosiveTraining(TrainerOptions options, Device device = Device::cpu()) {
    random::manual_seed(4);
    model = std::make_unique<Explosive>();
    model->to(device);
    optimizer = std::make_unique<Adam>(*model, AdamOptions{.lr = 0.01});
    if (!options.schedule) options.schedule = [](int64_t step) { return 0.01 / double(step + 2); };
    trainer = std::make_unique<Trainer>(*model, *optimizer, options);
    loader_options = {.batch_size = 8, .shuffle = true, .seed = 6, .device = device};
    indices = DataLoader(points(), loader_options).batch(1, odd_batch).indices;
  }

  // Trains on the set; keeps what all was before each step, those of `accumulate` batches.
  std::vector<EpochReport> fit(bool odd, int64_t accumulate = 1) {
    before = {bytes()};
    return trainer->fit(DataLoader(points(odd ? indices[4] : -1), loader_options),
                        {.on_batch_end = [&](const BatchReport& report) {
                          if ((report.batch + 1) % accumulate == 0) before.push_back(bytes());
                        }});
  }
  std::vector<std::string> bytes() { return state_bytes(*model, *optimizer, trainer->average()); }

  std::unique_ptr<Explosive> model;
  std::unique_ptr<Adam> optimizer;
  std::unique_ptr<Trainer> trainer;
  LoaderOptions loader_options;
  static constexpr int64_t odd_batch = 3;  // of five of 8 samples
  std::vector<int64_t> indices;            // of its samples
  std::vector<std::vector<std::string>> before;
};

// What the error of fit() says, and that all is as before the step, `step`, of the odd sample; that
// training goes on when the sample is mended.
inline void expect_stops(ExplosiveTraining& training, int64_t accumulate = 1) {
  const int64_t step = training.odd_batch / accumulate;
  training.fit(false);  // so that steps are replayed, if they are to be
  std::string text;
  try {
    training.fit(true, accumulate);
    ADD_FAILURE() << "the odd sample was not noticed";
  } catch (const Error& error) {
    text = error.what();
  }
  const auto expect = [&](const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  };
  expect("[fit] the loss is nan in epoch 1, batch " + std::to_string(ExplosiveTraining::odd_batch) +
         "; nothing was changed by step " + std::to_string(step) + ", of learning rate " +
         fmt::format("{}", 0.01 / double(step + 2)) + ".");
  expect("[FindNonFinite] fit/Explosive/exponential/exp: unary x=(8, 2) f32");
  expect("y has 1 infinity among 16 elements");
  expect("; the others are from ");
  expect(fmt::format("The batch's samples are {}", fmt::join(training.indices, ", ")));
  ASSERT_GT(training.before.size(), size_t(step));
  EXPECT_EQ(training.bytes(), training.before[size_t(step)]);
  training.fit(false);
  EXPECT_NE(training.bytes(), training.before.front());
}

}  // namespace adret::test

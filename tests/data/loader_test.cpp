// The loader: every item once, orders that repeat, errors from workers, early ends.
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/data/loader.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Input i is the number i, its label i % classes.
TensorDataset numbers(int64_t n, int64_t classes = 0) {
  std::vector<float> inputs(size_t(n), 0);
  std::iota(inputs.begin(), inputs.end(), 0.0f);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(int32_t(i % std::max<int64_t>(1, classes)));
  return TensorDataset(Tensor::from(inputs, {n}), Tensor::from(labels, {n}), classes);
}

std::vector<int64_t> order_of(const DataLoader& loader, int64_t epoch) {
  std::vector<int64_t> order;
  for (const Batch& batch : loader.epoch(epoch)) {
    for (const float value : batch.inputs.to_vector<float>()) order.push_back(int64_t(value));
  }
  return order;
}

class Workers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loader, Workers, testing::Values(0, 1, 3),
                         [](const auto& info) { return std::to_string(info.param) + "Workers"; });

TEST_P(Workers, DeliverEveryItemOnceWithTheLastBatchKeptOrDropped) {
  const DataLoader keeping(numbers(10), {.batch_size = 4, .workers = GetParam()});
  std::vector<int64_t> sizes, count;
  std::multiset<int64_t> items;
  for (const Batch& batch : keeping.epoch(0)) {
    sizes.push_back(batch.size());
    count.push_back(batch.number);
    items.insert(batch.indices.begin(), batch.indices.end());
  }
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2));
  EXPECT_THAT(count, ElementsAre(0, 1, 2));
  EXPECT_THAT(items, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(keeping.batches(), 3);
  EXPECT_EQ(keeping.samples(), 10);

  const DataLoader dropping(numbers(10),
                            {.batch_size = 4, .drop_last = true, .workers = GetParam()});
  EXPECT_EQ(order_of(dropping, 0).size(), 8);
  EXPECT_EQ(dropping.batches(), 2);
  EXPECT_EQ(dropping.samples(), 8);
}

TEST_P(Workers, ShuffleByEpochAndRepeatByRun) {
  const LoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 5, .workers = GetParam()};
  const DataLoader loader(numbers(100), options);
  const auto first = order_of(loader, 0), second = order_of(loader, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(order_of(loader, 0), first);
  // The order is the generator's permutation, so it is the same for any number of workers.
  EXPECT_EQ(first, random::permutation(100, {.seed = 5, .stream = RandomStream::shuffle}, 0));
  EXPECT_EQ(second, random::permutation(100, {.seed = 5, .stream = RandomStream::shuffle}, 1));
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, order_of(DataLoader(numbers(100)), 0));
}

TEST_P(Workers, ErrorsReachTheLoopAfterTheBatchesBefore) {
  struct Failing : Dataset {
    int64_t size() const override { return 40; }
    Sample get(int64_t i) const override {
      if (i == 17) throw Error("[decode] cut off");
      return {Tensor::from({float(i)}, {1}), Tensor::zeros({})};
    }
  };
  const DataLoader loader(Failing(), {.batch_size = 4, .workers = GetParam()});
  int64_t seen = 0;
  const std::string text = thrown<DataError>([&] {
    for (const Batch& batch : loader.epoch(2)) seen += batch.size();
  });
  EXPECT_EQ(text, "[DataLoader] epoch 2, batch 4: [Dataset] item 17: [decode] cut off");
  EXPECT_EQ(seen, 16);
  // The loader itself is as good as before.
  EXPECT_EQ(loader.epoch(3).begin()->size(), 4);
}

TEST_P(Workers, LabelsOutsideTheClassesAreNamed) {
  const TensorDataset wrong(Tensor::zeros({3}), Tensor::from<int32_t>({1, 10, -4}, {3}), 10);
  EXPECT_EQ(
      thrown<DataError>([&] { order_of(DataLoader(wrong, {.workers = GetParam()}), 0); }),
      "[DataLoader] epoch 0, batch 0: [Dataset] item 1 has label 10; with 10 classes labels are "
      "0..9");
  const TensorDataset floats(Tensor::zeros({3}), Tensor::zeros({3}), 10);
  EXPECT_THAT(thrown<DataError>([&] { order_of(DataLoader(floats, {.workers = GetParam()}), 0); }),
              HasSubstr("class labels are i32 or i64"));
}

TEST_P(Workers, LeavingTheLoopEarlyEndsPromptly) {
  struct Slow : Dataset {
    std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
    int64_t size() const override { return 1'000'000; }
    Sample get(int64_t) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++*made;
      return {Tensor::zeros({1}), Tensor::zeros({})};
    }
  };
  const Slow slow;
  const auto start = std::chrono::steady_clock::now();
  {
    const DataLoader loader(slow, {.batch_size = 1, .workers = GetParam(), .prefetch = 8});
    for (const Batch& batch : loader.epoch(0)) {
      EXPECT_EQ(batch.number, 0);
      break;
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  // What was prefetched, what was in the making, and the one taken.
  EXPECT_LE(*slow.made, 1 + 8 + GetParam());
}

TEST_P(Workers, ApplyTheTransformToEachBatch) {
  const DataLoader loader(numbers(5),
                          {.batch_size = 2, .workers = GetParam(), .transform = [](Batch& batch) {
                             batch.inputs = Tensor::full(batch.inputs.shape(),
                                                         double(10 * batch.epoch + batch.number));
                           }});
  EXPECT_THAT(order_of(loader, 3), ElementsAre(30, 30, 31, 31, 32));
}

TEST_P(Workers, TellTheSetEpochAndNumber) {
  struct Asked : TensorDataset {
    using TensorDataset::TensorDataset;
    Batch get_batch(const BatchRequest& request) const override {
      Batch batch = TensorDataset::get_batch(request);
      batch.inputs =
          Tensor::full(batch.inputs.shape(), double(100 * request.epoch + 10 * request.number));
      return batch;
    }
  };
  const DataLoader loader(Asked(Tensor::zeros({3}), Tensor::zeros({3})),
                          {.batch_size = 2, .workers = GetParam()});
  EXPECT_THAT(order_of(loader, 4), ElementsAre(400, 400, 410));
}

TEST(DataLoader, CountsTheTimeThatTheLoopWaits) {
  double now = 0;
  // Making a batch takes 2 s, the loop's own work 5.
  const DataLoader loader(numbers(3), {.batch_size = 1,
                                       .transform = [&now](Batch&) { now += 2; },
                                       .clock = [&now] { return now; }});
  auto epoch = loader.epoch(0);
  EXPECT_EQ(epoch.waited_seconds(), 0);
  double expected = 0;
  for (const Batch& batch : epoch) {
    EXPECT_EQ(batch.size(), 1);
    EXPECT_EQ(epoch.waited_seconds(), expected += 2);
    now += 5;
  }
  EXPECT_EQ(epoch.waited_seconds(), 6);
}

TEST(DataLoader, RefusesWhatWouldProduceNoBatch) {
  EXPECT_EQ(
      thrown<Error>([] { DataLoader(numbers(3), {.batch_size = 4, .drop_last = true}); }),
      "[DataLoader] batch_size 4 with drop_last on a set of 3 items: no batch would be produced; "
      "lower batch_size or keep the last batch");
  EXPECT_EQ(thrown<Error>([] { DataLoader(numbers(0)); }),
            "[DataLoader] the data set is empty, so no batch would be produced");
  EXPECT_THAT(thrown<Error>([] { DataLoader(numbers(3), {.batch_size = 0}); }),
              AllOf(HasSubstr("wants batch_size of 1 or more"), HasSubstr("got 0, 0, 0")));
  EXPECT_THAT(thrown<Error>([] { DataLoader(numbers(3), {.workers = -1}); }),
              HasSubstr("got 64, -1, 0"));
}

TEST(DataLoader, StartsNoMoreThanThereIsToDo) {
  const DataLoader loader(numbers(3), {.batch_size = std::numeric_limits<int64_t>::max(),
                                       .workers = std::numeric_limits<int>::max(),
                                       .prefetch = std::numeric_limits<int>::max()});
  EXPECT_EQ(loader.batches(), 1);
  EXPECT_EQ(loader.samples(), 3);
  EXPECT_THAT(order_of(loader, 0), ElementsAre(0, 1, 2));
}

TEST(DataLoader, SharesADatasetGivenByPointer) {
  const auto dataset = std::make_shared<TensorDataset>(numbers(3));
  EXPECT_EQ(&DataLoader(dataset).dataset(), dataset.get());
  EXPECT_EQ(thrown<Error>([] { DataLoader(std::shared_ptr<const Dataset>()); }),
            "[DataLoader] wants a data set, got a null pointer");
}

TEST(DataLoader, TakesTheThreadsSeedWhenItIsMade) {
  random::manual_seed(11);
  const DataLoader loader(numbers(50), {.shuffle = true});
  random::manual_seed(12);
  EXPECT_EQ(order_of(loader, 0),
            random::permutation(50, {.seed = 11, .stream = RandomStream::shuffle}, 0));
}

TEST(DataLoader, AnEpochIsPassedOverOnceAndOutlivesItsLoader) {
  auto epoch = DataLoader(numbers(5), {.batch_size = 5, .workers = 1}).epoch(0);
  int batches = 0;
  for (const Batch& batch : epoch) batches += batch.size() == 5;
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(thrown<Error>([&] { epoch.begin(); }),
            "[DataLoader] an epoch is passed over once; call epoch() for each pass");
}

TEST(DataLoader, AWrongNumberOfRowsFromABatchIsFound) {
  struct Short : TensorDataset {
    using TensorDataset::TensorDataset;
    Batch get_batch(const BatchRequest& request) const override {
      return TensorDataset::get_batch({.indices = request.indices.first(1)});
    }
  };
  EXPECT_THAT(thrown<DataError>(
                  [] { order_of(DataLoader(Short(Tensor::zeros({3}), Tensor::zeros({3}))), 0); }),
              HasSubstr("get_batch gave inputs (1,) f32 cpu for 3 indices"));
}

}  // namespace
}  // namespace adret

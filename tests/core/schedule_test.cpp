// Which calls of two lanes wait for each other, by hand.
#include <adret/core/replay/schedule.h>
#include <adret/core/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace adret {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Schedule : testing::Test {
  Tensor a = Tensor::zeros({8}), b = Tensor::zeros({8}), c = Tensor::zeros({8});
  Tensor d = Tensor::zeros({8});

  static Kernel copy(const TensorView& x, const TensorView& y) {
    return kernels::Copy{.x = x, .y = y};
  }
  static std::vector<Scheduled> of(const std::vector<Kernel>& calls,
                                   const std::vector<int>& lanes) {
    std::vector<const Kernel*> list;
    for (const Kernel& call : calls) list.push_back(&call);
    return schedule(list, lanes);
  }
};

TEST_F(Schedule, ReadersWaitForTheWriter) {
  const auto order = of({copy(a, b), copy(b, c), copy(a, d)}, {0, 1, 1});
  EXPECT_EQ(order[1].lane, 1);
  EXPECT_THAT(order[0].after, IsEmpty());
  EXPECT_THAT(order[1].after, ElementsAre(0));
  EXPECT_THAT(order[2].after, IsEmpty());  // behind call 1, and both only read a
}

TEST_F(Schedule, WritersWaitForReadersAndWriters) {
  const auto order = of({copy(a, b), copy(c, a), copy(d, b)}, {0, 1, 1});
  EXPECT_THAT(order[1].after, ElementsAre(0));
  EXPECT_THAT(order[2].after, ElementsAre(0));
}

TEST_F(Schedule, TheLastOfTheOtherLaneStandsForThoseBefore) {
  const auto order = of({copy(a, b), copy(a, c), copy(b, d)}, {0, 0, 1});
  EXPECT_THAT(order[2].after, ElementsAre(0));
  const auto both = of({copy(a, b), copy(b, c), copy(b, d)}, {0, 0, 1});
  EXPECT_THAT(both[2].after, ElementsAre(0));  // call 1 only reads b
}

TEST_F(Schedule, PartsOfOneBlockThatDoNotMeetAreApart) {
  const Tensor block = Tensor::zeros({16});
  TensorView low = block, high = block;
  low.shape = high.shape = {8};
  high.data = low.as<float>() + 8;
  const auto order = of({copy(a, low), copy(b, high)}, {0, 1});
  EXPECT_THAT(order[1].after, IsEmpty());
  TensorView middle = low;
  middle.data = low.as<float>() + 7;
  EXPECT_THAT(of({copy(a, low), copy(b, middle)}, {0, 1})[1].after, ElementsAre(0));
}

TEST_F(Schedule, OnlyGradientsOfWeightsRunBeside) {
  EXPECT_TRUE(runs_beside(kernels::LinearBackwardWeight{}));
  EXPECT_TRUE(runs_beside(kernels::Conv2dBackwardWeight{}));
  EXPECT_FALSE(runs_beside(kernels::LinearBackwardInput{}));
  EXPECT_FALSE(runs_beside(copy(a, b)));
}

}  // namespace
}  // namespace adret

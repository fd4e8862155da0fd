// Sorting: what comes out is in order, is what went in, and lies where the places say.
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/sort.h>

#include <algorithm>
#include <numeric>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

// A tensor to sort and how; equal elements are many.
struct Problem {
  Tensor x;
  int dim, along;
  bool descending;

  explicit Problem(Draw& draw) : x(draw.anything(draw.shape(1, 4))), descending(draw.chance()) {
    dim = draw.dim(x.shape());
    along = dim < 0 ? dim + x.rank() : dim;
  }
  // The places along the dimension in their order; equal elements stay in theirs.
  Array places() const {
    const Array in(x);
    Array result(x.shape());
    for (const Index& at : indices_of(x.shape().without(along))) {
      std::vector<int64_t> order(size_t(x.size(along)));
      std::iota(order.begin(), order.end(), 0);
      const auto value = [&](int64_t i) { return in.at(inserted(at, along, i)); };
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        return descending ? value(a) > value(b) : value(a) < value(b);
      });
      for (size_t i = 0; i < order.size(); ++i) {
        result.at(inserted(at, along, int64_t(i))) = double(order[i]);
      }
    }
    return result;
  }
};

TEST(OrderProperties, SortIsStable) {
  for_random_cases("sort", [](Draw& draw) {
    const Problem p(draw);
    const SortOptions options{.dim = p.dim, .descending = p.descending};
    const Sorted y = sort(p.x, options);
    expect_array(y.indices, p.places());
    expect_same(y.values, gather(p.x, p.dim, y.indices));
    expect_slope([&](const Inputs& in) { return sort(in[0], options).values; },
                 {draw.distinct(p.x.shape())}, draw);
  });
  for_random_cases("argsort", [](Draw& draw) {
    const Problem p(draw);
    expect_array(argsort(p.x, {.dim = p.dim, .descending = p.descending}), p.places());
  });
}

TEST(OrderProperties, TopkIsTheBeginningOfAllSorted) {
  for_random_cases("topk", [](Draw& draw) {
    const Problem p(draw);
    const int64_t k = draw.integer(0, p.x.size(p.along));
    const TopkOptions options{.dim = p.dim, .largest = p.descending};
    const Sorted y = topk(p.x, k, options);
    const Array all = p.places();
    expect_array(y.indices, tabulate(p.x.shape().with(p.along, k),
                                     [&](const Index& at) { return all.at(at); }));
    expect_same(y.values, gather(p.x, p.dim, y.indices));
    expect_slope([&](const Inputs& in) { return topk(in[0], k, options).values; },
                 {draw.distinct(p.x.shape())}, draw);
  });
}

}  // namespace
}  // namespace adret

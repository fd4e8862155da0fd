// Elements picked, placed and added by indices.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/index.h>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

DType some_integers(Draw& draw) { return draw.chance() ? DType::i32 : DType::i64; }

// Indices along a dimension of x, for each element or for whole slices.
struct Picks {
  Shape x, picked;  // and the shape of what is picked, or put there
  int dim, along;
  Tensor indices;
  Array places;

  Picks(Draw& draw, bool of_elements) : x(draw.shape(1, 4)), places(Shape()) {
    dim = draw.dim(x);
    along = dim < 0 ? dim + x.rank() : dim;
    const int64_t size = x[along], count = size == 0 ? 0 : draw.integer(0, 7);
    picked = x.with(along, count);
    indices = draw.integers(of_elements ? picked : Shape{count}, 0, std::max<int64_t>(0, size - 1),
                            some_integers(draw));
    places = Array(indices);
  }
  // Where in x the element at `at` of what is picked lies.
  Index from(const Index& at) const {
    const Index of_slice = {at[size_t(along)]};
    return with(at, along,
                int64_t(places.at(places.shape.rank() == 1 && x.rank() > 1 ? of_slice : at)));
  }
};

TEST(IndexProperties, Picking) {
  for_random_cases("gather", [](Draw& draw) {
    const Picks picks(draw, true);
    const Tensor x = draw.anything(picks.x);
    const Array in(x);
    expect_array(gather(x, picks.dim, picks.indices),
                 tabulate(picks.picked, [&](const Index& at) { return in.at(picks.from(at)); }));
    expect_slope([&](const Inputs& in) { return gather(in[0], picks.dim, in[1]); },
                 {draw.numbers(picks.x), picks.indices}, draw);
  });
  for_random_cases("index_select", [](Draw& draw) {
    const Picks picks(draw, false);
    const Tensor x = draw.anything(picks.x);
    const Array in(x);
    expect_array(index_select(x, picks.dim, picks.indices),
                 tabulate(picks.picked, [&](const Index& at) { return in.at(picks.from(at)); }));
    expect_slope([&](const Inputs& in) { return index_select(in[0], picks.dim, in[1]); },
                 {draw.numbers(picks.x), picks.indices}, draw);
  });
}

using Placing = Tensor (*)(const Tensor&, int, const Tensor&, const Tensor&);

// put(to, from) says what an element becomes.
template <class Put>
void expect_placed(Draw& draw, Placing call, const Picks& picks, Put put) {
  const Tensor x = draw.numbers(picks.x), source = draw.numbers(picks.picked);
  Array y(x);
  const Array from(source);
  for (const Index& at : indices_of(picks.picked)) put(y.at(picks.from(at)), from.at(at));
  const DType dtype = draw.wide();
  expect_array(call(x.to(dtype), picks.dim, picks.indices, source.to(dtype)), y);
  expect_slope([&](const Inputs& in) { return call(in[0], picks.dim, in[1], in[2]); },
               {x, picks.indices, source}, draw);
}

TEST(IndexProperties, Placing) {
  const auto add = [](double& to, double from) { to += from; };
  for_random_cases("scatter", [&](Draw& draw) {
    expect_placed(draw, scatter, Picks(draw, true), [](double& to, double from) { to = from; });
  });
  for_random_cases("scatter_add",
                   [&](Draw& draw) { expect_placed(draw, scatter_add, Picks(draw, true), add); });
  for_random_cases("index_add",
                   [&](Draw& draw) { expect_placed(draw, index_add, Picks(draw, false), add); });
}

TEST(IndexProperties, EmbeddingGivesRows) {
  for_random_cases("embedding", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    const int64_t rows = draw.integer(1, 9), columns = draw.size();
    const Tensor indices = draw.integers(shape, 0, rows - 1, some_integers(draw));
    const Tensor weight = draw.numbers({rows, columns});
    const Array places(indices), table(weight);
    expect_array(embedding(indices, weight),
                 tabulate(shape.inserted(shape.rank(), columns), [&](const Index& at) {
                   const Index from(at.begin(), at.end() - 1);
                   return table.at({int64_t(places.at(from)), at.back()});
                 }));
    expect_slope([](const Inputs& in) { return embedding(in[0], in[1]); }, {indices, weight}, draw);
  });
}

TEST(IndexProperties, OneHot) {
  for_random_cases("one_hot", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const int64_t classes = draw.integer(0, 6);
    const Tensor labels = draw.integers(shape, -1, 6, some_integers(draw));
    const Array of(labels);
    const DType dtype = draw.anything({}).dtype();
    const Tensor y = one_hot(labels, classes, dtype);
    EXPECT_EQ(y.dtype(), dtype);
    expect_array(y, tabulate(shape.inserted(shape.rank(), classes), [&](const Index& at) {
                   return of.at(Index(at.begin(), at.end() - 1)) == double(at.back());
                 }));
  });
}

}  // namespace
}  // namespace adret

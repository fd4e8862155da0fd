// The largest elements of areas that cover a sequence, an image or a volume.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/window.h>

namespace adret {
namespace {

// Note [Areas as windows]
// Areas of one direction differ in size by one at most and may share an element. Elements are
// gathered so that all are as long as the longest: in a shorter one the last element is repeated,
// which changes neither the largest nor which of equal ones is first. Then they are windows side by
// side. Where the areas are of one size already nothing is gathered.

// floor(x / divisor) of whole numbers from 0. The half keeps quotients away from whole numbers,
// since x / b of a tensor is x times the rounded 1 / b.
Tensor whole_quotient(const Tensor& x, int64_t divisor) {
  return floor((x + 0.5) / double(divisor));
}

// From `from` elements to `to` areas, of up to `size` elements.
struct Areas {
  int64_t from, to, size;

  Areas(int64_t from, int64_t to) : from(from), to(to), size(0) {
    for (int64_t i = 0; i < to; ++i) size = std::max(size, end(i) - i * from / to);
  }
  int64_t end(int64_t i) const { return ((i + 1) * from + to - 1) / to; }
  bool side_by_side() const { return from % to == 0; }
  // Made of kernels, so that a recorded step has them as constants.
  Tensor places(Device device) const {
    const TensorOptions wide{.dtype = DType::f64, .device = device};
    const Tensor within = arange(0, double(size), 1, wide).reshape({1, size});
    const Tensor begin = arange(0, double(to), 1, wide).reshape({to, 1}) * double(from);
    const Tensor first = whole_quotient(begin, to);
    const Tensor last = whole_quotient(begin + double(from - 1), to);
    return minimum(first + within, last).to(DType::i64).reshape({to * size});
  }
};

template <class Size, class Pool>
Tensor largest_of_areas(const char* function, const Tensor& x, const Size& size, Pool pool) {
  check_resizable(function, x, size);
  const Size input = inner_sizes<Size>(x.shape());
  Tensor gathered = x;
  auto window = along(size);
  for (size_t i = 0; i < window.size(); ++i) {
    const Areas areas(along(input)[i], window[i]);
    window[i] = areas.size;
    if (areas.side_by_side()) continue;
    gathered = gather_places(gathered, {function, int(i) + 1, areas.places(x.device())});
  }
  return pool(gathered, from_directions(window), {});
}

}  // namespace

Tensor adaptive_max_pool1d(const Tensor& x, int64_t size) {
  const FunctionScope scope("adaptive_max_pool1d");
  check::rank("adaptive_max_pool1d", {"x", x}, 3, "(N, L, C)");
  const Tensor rows = x.reshape({x.size(0), 1, x.size(1), x.size(2)});
  const Tensor y = largest_of_areas("adaptive_max_pool1d", rows, Size2(1, size), max_pool2d);
  return y.reshape({x.size(0), size, x.size(2)});
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2 size) {
  const FunctionScope scope("adaptive_max_pool2d");
  check::rank("adaptive_max_pool2d", {"x", x}, 4, "(N, H, W, C)");
  return largest_of_areas("adaptive_max_pool2d", x, size, max_pool2d);
}

Tensor adaptive_max_pool3d(const Tensor& x, Size3 size) {
  const FunctionScope scope("adaptive_max_pool3d");
  check::rank("adaptive_max_pool3d", {"x", x}, 5, "(N, D, H, W, C)");
  return largest_of_areas("adaptive_max_pool3d", x, size, max_pool3d);
}

}  // namespace adret

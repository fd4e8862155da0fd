// The gradient of a sum of squares, 2x, with nothing but an installed Adret: of its function and of
// a formula.
#include <adret/adret.h>

struct Square {
  ADRET_FN auto operator()(auto x) const { return x * x; }
};

int main() {
  using namespace adret;
  Tensor x = Tensor::from({1.0f, -2.0f, 3.0f}, {3});
  x.set_requires_grad(true);
  const std::vector expected{2.0f, -4.0f, 6.0f};
  sum(x * x).backward();
  if (x.grad().to_vector() != expected) return 1;
  return grad({sum(pointwise(Square{}, x))}, {x})[0].to_vector() == expected ? 0 : 1;
}

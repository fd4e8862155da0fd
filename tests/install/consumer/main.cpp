// The gradient of a sum of squares, 2x, with nothing but an installed Adret.
#include <adret/adret.h>

int main() {
  using namespace adret;
  Tensor x = Tensor::from({1.0f, -2.0f, 3.0f}, {3});
  x.set_requires_grad(true);
  sum(x * x).backward();
  return x.grad().to_vector() == std::vector{2.0f, -4.0f, 6.0f} ? 0 : 1;
}

// Wrong uses of pointwise: each CASE must be refused, by the message that CMakeLists.txt gives.
#include <adret/autograd/pointwise.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

using namespace adret;

double plain_function(double x);

struct Product {
  auto operator()(auto a, auto b) const { return a * b; }
};
struct NotConst {
  auto operator()(auto x) { return x; }
};
struct HoldsVector {
  std::vector<float> weights;
  auto operator()(auto x) const { return weights[0] * x; }
};
struct ReturnsText {
  std::string operator()(auto) const { return "text"; }
};
struct WithoutDerivative {
  auto operator()(auto x) const { return lgamma(x); }
};
struct OfPlainNumbers {
  auto operator()(auto x) const { return plain_function(x); }
};

struct OfTheStandardLibrary {
  auto operator()(auto x) const { return std::tgamma(x); }
};
struct StandardExp {
  auto operator()(auto x) const { return std::exp(x); }
};
struct ReturnsSeven {
  auto operator()(auto x) const { return std::array{x, x, x, x, x, x, x}; }
};

void use(const Tensor& x) {
#if CASE == 1
  pointwise(Product{}, x);
#elif CASE == 2
  pointwise(NotConst{}, x);
#elif CASE == 3
  pointwise(HoldsVector{}, x);
#elif CASE == 4
  pointwise(ReturnsText{}, x);
#elif CASE == 5
  pointwise(WithoutDerivative{}, x);
#elif CASE == 6
  pointwise(OfPlainNumbers{}, x);
#elif CASE == 7
  pointwise(Product{}, x, x, x, x, x, x, x);
#elif CASE == 8
  pointwise(ReturnsSeven{}, x);
#elif CASE == 9
  pointwise(OfTheStandardLibrary{}, x);
#elif CASE == 10
  pointwise(StandardExp{}, x);
#elif CASE == 11
  pointwise(Product{}, x, 3);
#else
  pointwise(Product{}, x, x);
#endif
}

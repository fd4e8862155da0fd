// Compares what two calls gave.
#include <adret/autograd/grad_mode.h>
#include <adret/certify/subject_copy.h>
#include <fmt/core.h>

#include <cmath>
#include <cstring>

namespace adret {
namespace {

// Differences of elements far below this count as little.
constexpr double small = 0.1;

std::string place(const Shape& shape, size_t element) {
  if (shape.rank() == 0) return "";
  std::vector<int64_t> index(size_t(shape.rank()));
  auto left = int64_t(element);
  for (int i = shape.rank() - 1; i >= 0; left /= shape[i--]) index[size_t(i)] = left % shape[i];
  return fmt::format(", element {} at {}", element,
                     to_string(Shape(std::span<const int64_t>(index))));
}

bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<double> values_of(const Tensor& tensor) {
  const NoGrad no_grad;
  return tensor.detach().to(Device::cpu()).to(DType::f64).to_vector<double>();
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.detach().to(Device::cpu());
  std::vector<std::byte> bytes(here.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), here.data(), bytes.size());
  return bytes;
}

// The element that differs most, if they are too far apart.
struct Worst {
  bool found = false;
  size_t element = 0;
};

Worst worst_of(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  double squares = 0, expected = 0, largest = -1;
  Worst worst;
  for (size_t i = 0; i < a.size(); ++i) {
    if (equal(a[i], b[i])) {
      expected += std::isfinite(b[i]) ? b[i] * b[i] : 0;
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return {true, i};
    const double distance = std::abs(a[i] - b[i]);
    squares += distance * distance;
    expected += b[i] * b[i];
    if (distance <= largest) continue;
    largest = distance;
    worst.element = i;
  }
  const double scale = std::sqrt(expected) + small * std::sqrt(double(a.size()));
  worst.found = largest >= 0 && std::sqrt(squares) > tolerance * scale;
  return worst;
}

std::string difference_of(const NamedTensor& actual, const NamedTensor& expected,
                          const Comparison& how) {
  const auto& [name, a] = actual;
  const Tensor& b = expected.tensor;
  const auto form = [](const Tensor& t) {
    return t.defined() ? fmt::format("{} {}", to_string(t.shape()), to_string(t.dtype())) : "none";
  };
  const bool alike = a.defined() == b.defined() && (!a.defined() || a.shape() == b.shape());
  if (!alike) {
    return fmt::format("{} is {} {}, {} {}", name, form(a), how.actual, form(b), how.expected);
  }
  if (!a.defined()) return "";
  if (how.tolerance == 0) {
    if (a.dtype() != b.dtype()) {
      return fmt::format("{} is {} {}, {} {}", name, form(a), how.actual, form(b), how.expected);
    }
    if (bytes_of(a) == bytes_of(b)) return "";
  }
  const std::vector<double> x = values_of(a), y = values_of(b);
  const Worst worst = worst_of(x, y, how.tolerance);
  if (!worst.found) return "";
  return fmt::format("{} {}{} is {} {}, {} {}", name, to_string(a.shape()),
                     place(a.shape(), worst.element), x[worst.element], how.actual,
                     y[worst.element], how.expected);
}

}  // namespace

std::string difference(const NamedTensors& actual, const NamedTensors& expected,
                       const Comparison& comparison) {
  if (actual.size() != expected.size()) {
    return fmt::format("{} tensors {}, {} {}", actual.size(), comparison.actual, expected.size(),
                       comparison.expected);
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    std::string found = difference_of(actual[i], expected[i], comparison);
    if (!found.empty()) return found;
  }
  return "";
}

double tolerance_of(const CertifyTolerances& tolerances, DType dtype) {
  switch (dtype) {
    case DType::f64: return tolerances.f64;
    case DType::f16: return tolerances.f16;
    case DType::bf16: return tolerances.bf16;
    default: return tolerances.f32;
  }
}

}  // namespace adret

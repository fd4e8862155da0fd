// Compares gradients with central differences.
#include <adret/autograd/engine.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <cmath>

namespace adret {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Different for all elements, so that an error in one cannot hide behind another.
double weight(size_t element) { return std::cos(1.7 * double(element) + 0.4); }

Tensor weights_like(const Tensor& tensor) {
  std::vector<double> values(size_t(tensor.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = weight(i);
  return Tensor::from(values, tensor.shape(), tensor.device());
}

// Copies outside the graph, of which those like their originals require a gradient.
std::vector<Tensor> fresh(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> copies;
  for (const Tensor& input : inputs) {
    copies.push_back(input.detach().clone());
    copies.back().set_requires_grad(input.requires_grad());
  }
  return copies;
}

std::vector<Tensor> differentiable(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> chosen;
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) chosen.push_back(input);
  }
  return chosen;
}

double weighted_sum(const Tensor& output) {
  const std::vector<double> values = output.to_vector<double>();
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) total += weight(i) * values[i];
  return total;
}

std::string place(const Shape& shape, int64_t element) {
  std::vector<int64_t> index(size_t(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; element /= shape[i--]) {
    index[size_t(i)] = element % shape[i];
  }
  return to_string(Shape(std::span<const int64_t>(index)));
}

// Zeros for an output without a graph: it claims to depend on nothing.
std::vector<Tensor> backward_gradients(const Tensor& output, const std::vector<Tensor>& inputs) {
  if (output.requires_grad()) {
    return grad({output}, inputs, {.grad_outputs = {weights_like(output)}});
  }
  std::vector<Tensor> zeros = inputs;
  for (Tensor& zero : zeros) zero = Tensor::zeros(zero.shape(), {zero.dtype(), zero.device()});
  return zeros;
}

// Odd, so that rows of an even length do not always give the same columns.
int64_t stride(int64_t numel, int64_t most) {
  if (most <= 0 || numel <= most) return 1;
  return (numel + most - 1) / most | 1;
}

std::string check_first(const Function& function, const std::vector<Tensor>& inputs,
                        const GradcheckOptions& options) {
  const std::vector<Tensor> leaves = fresh(inputs);
  const std::vector<Tensor> gradients =
      backward_gradients(function(leaves), differentiable(leaves));
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const std::vector<double> backward = gradients[next++].to_vector<double>();
    const int64_t numel = inputs[i].numel(), step = stride(numel, options.elements);
    for (int64_t element = 0; element < numel; element += step) {
      const auto shifted = [&](double by) {
        const std::vector<Tensor> moved = fresh(inputs);
        moved[i].span<double>()[size_t(element)] += by;
        return weighted_sum(function(moved));
      };
      const double numeric =
          (shifted(options.epsilon) - shifted(-options.epsilon)) / (2 * options.epsilon);
      const double difference = std::abs(backward[size_t(element)] - numeric);
      // Written so that NaN fails.
      if (difference <= options.absolute + options.relative * std::abs(numeric)) continue;
      return fmt::format("input {} {}, element {} at {}: backward gives {}, central differences {}",
                         i, to_string(inputs[i].shape()), element,
                         place(inputs[i].shape(), element), backward[size_t(element)], numeric);
    }
  }
  return "";
}

// The gradients of a function as a function of its inputs and, last, of the output's gradient.
Function gradient_of(const Function& function) {
  return [function](const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> own(inputs.begin(), inputs.end() - 1);
    const std::vector<Tensor> gradients =
        grad({function(own)}, differentiable(own),
             {.grad_outputs = {inputs.back()}, .create_graph = true});
    Tensor total = Tensor::zeros({}, {.dtype = DType::f64, .device = inputs.back().device()});
    for (const Tensor& gradient : gradients) {
      total = total + sum(gradient * weights_like(gradient));
    }
    return total;
  };
}

}  // namespace

std::string gradcheck(const Function& function, const std::vector<Tensor>& inputs,
                      const GradcheckOptions& options) {
  if (!function) throw Error("[gradcheck] the function is empty");
  for (const Tensor& input : inputs) {
    if (input.requires_grad() && input.dtype() != DType::f64) {
      throw ShapeError(
          fmt::format("[gradcheck] input {} is {}, wanted f64; convert it with "
                      "to(DType::f64)",
                      to_string(input.shape()), name(input.dtype())));
    }
  }
  const std::string first = check_first(function, inputs, options);
  if (!first.empty() || !options.second) return first.empty() ? first : "[gradcheck] " + first;
  std::vector<Tensor> extended = inputs;
  extended.push_back(weights_like(function(fresh(inputs))));
  extended.back().set_requires_grad(true);
  const std::string second = check_first(gradient_of(function), extended, options);
  return second.empty() ? second : "[gradcheck] gradient of the gradient, " + second;
}

}  // namespace adret

// Formulas in the graph. Gradients have the outputs' shape as they leave the kernels, and are then
// summed to an operand's own.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/pointwise.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace adret::formula {
namespace {

using Tensors = std::vector<Tensor>;

struct BoundFormula {
  const Formula* formula;
  std::shared_ptr<const void> constants;
};

// Runs one direction; an undefined output is not wanted, an undefined input is zero.
void run_direction(const BoundFormula& bound, const char* name, const Code& code,
                   const Tensors& inputs, const Tensors& outputs) {
  std::vector<TensorView> in, out;
  Tensor zero;
  uint32_t wanted = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].defined()) continue;
    out.push_back(outputs[k]);
    wanted |= 1u << k;
  }
  if (out.empty()) return;
  for (const Tensor& input : inputs) {
    if (!input.defined() && !zero.defined()) zero = scalar_like(inputs[0], 0);
    in.push_back(input.defined() ? input : zero);
  }
  const FormulaKernel kernel(name, code, bound.constants, wanted);
  run(kernels::Custom{.kernel = &kernel, .in = in, .out = out});
}

Tensors unpacked(const std::vector<SavedTensor>& saved, const Node& node) {
  Tensors tensors;
  for (const SavedTensor& one : saved) {
    tensors.push_back(one.defined() ? one.unpack(node) : Tensor());
  }
  return tensors;
}

std::vector<SavedTensor> saved(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

// Those that are defined: the outputs that a node is recorded with.
Tensors defined(const Tensors& tensors) {
  Tensors list;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(list),
               [](const Tensor& tensor) { return tensor.defined(); });
  return list;
}

// Each gradient as its operand's shape wants it.
Tensors summed(Tensors dx, const Tensors& x) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (dx[i].defined()) dx[i] = sum_to(dx[i], x[i].shape());
  }
  return dx;
}

struct ThirdDerivative final : Node {
  explicit ThirdDerivative(const BoundFormula& bound) : bound(bound) {}
  const char* name() const override { return bound.formula->second_name; }
  Tensors backward(const Tensors&) override {
    throw Error(
        fmt::format("[{}] a formula has first and second derivatives; compose the function "
                    "of others, as exp and operators, for a third",
                    bound.formula->name));
  }
  BoundFormula bound;
};

struct SecondDerivative final : Node {
  SecondDerivative(const BoundFormula& bound, const Tensors& inputs, const Tensors& gradients)
      : bound(bound), inputs(saved(inputs)) {
    for (const Tensor& gradient : gradients) is_output.push_back(gradient.defined());
  }
  const char* name() const override { return bound.formula->backward_name; }
  Tensors backward(const Tensors& grads) override {
    const Tensors x = unpacked(inputs, *this);
    Tensors all = x;
    for (size_t i = 0, next = 0; i < is_output.size(); ++i) {
      all.push_back(is_output[i] ? grads[next++] : Tensor());
    }
    const Shape& shape = output_spec(0).shape;
    Tensors dx(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (needs_gradient(i)) dx[i] = empty_like(x[0], shape);
    }
    run_direction(bound, bound.formula->second_name, bound.formula->second, all, dx);
    record<ThirdDerivative>(defined(dx), all, bound);
    return summed(std::move(dx), x);
  }
  BoundFormula bound;
  std::vector<SavedTensor> inputs;  // the operands and the outputs' gradients
  std::vector<bool> is_output;      // for each operand, whether its gradient was asked for
};

struct FirstDerivative final : Node {
  FirstDerivative(const BoundFormula& bound, std::span<const Tensor> operands)
      : bound(bound), operands(saved(operands)) {}
  const char* name() const override { return bound.formula->name; }
  Tensors backward(const Tensors& grads) override {
    const Tensors x = unpacked(operands, *this);
    Tensors all = x;
    all.insert(all.end(), grads.begin(), grads.end());
    const Shape& shape = output_spec(0).shape;
    Tensors dx(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (!needs_gradient(i)) continue;
      dx[i] = x[i].shape() == shape ? grad_buffer(i) : empty_like(x[i], shape);
    }
    run_direction(bound, bound.formula->backward_name, bound.formula->backward, all, dx);
    record<SecondDerivative>(defined(dx), all, bound, all, dx);
    return summed(std::move(dx), x);
  }
  BoundFormula bound;
  std::vector<SavedTensor> operands;
};

}  // namespace

Tensors apply(const Formula& formula, std::shared_ptr<const void> constants,
              std::span<const Tensor> operands) {
  static constexpr const char* names[max_inputs] = {"operand 1", "operand 2", "operand 3",
                                                    "operand 4", "operand 5", "operand 6"};
  const FunctionScope scope(formula.name);
  check::floating(formula.name, {names[0], operands[0]});
  Shape shape = operands[0].shape();
  for (size_t i = 1; i < operands.size(); ++i) {
    check::alike(formula.name, {names[0], operands[0]}, {names[i], operands[i]});
    shape = broadcast(formula.name, shape, operands[i].shape());
  }
  const BoundFormula bound{&formula, std::move(constants)};
  Tensors outputs;
  for (int k = 0; k < formula.forward.outputs; ++k) {
    outputs.push_back(empty_like(operands[0], shape));
  }
  run_direction(bound, formula.name, formula.forward, {operands.begin(), operands.end()}, outputs);
  record<FirstDerivative>(outputs, operands, bound, operands);
  return outputs;
}

}  // namespace adret::formula

// What the kernel structs are made of: named operands, and what each struct must offer.
#pragma once

#include <adret/core/tensor_view.h>

#include <array>

namespace adret::kernels {

// An operand with the name of its field; optional ones may be undefined.
struct Operand {
  const char* name;
  TensorView view;
};

template <class... Operands>
std::array<Operand, sizeof...(Operands)> operands(const Operands&... list) {
  return {list...};
}

// Every kernel is an aggregate with
//   static constexpr const char* name;
//   inputs(), outputs()        lists of Operand; what is updated in place stands in both
//   double flops() const       floating-point operations, a multiply-add counting two
//   std::string params() const (optional) the parameters, for printing
// The bytes it must move are those of its operands.

}  // namespace adret::kernels

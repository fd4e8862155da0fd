// A sweep over functions: each names itself when an operand is undefined, of a wrong dtype or of a
// wrong shape, never a function within it, and never crashes.
#pragma once

#include <adret/core/error.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace adret::test {

using Inputs = std::vector<Tensor>;

// A call with operands that it takes.
struct Call {
  const char* name;
  Inputs operands;
  std::function<void(const Inputs&)> call;
  int any_dtype = 0;  // how many of the first operands may have any dtype
  int any_shape = 0;  // and any shape
  int optional = 0;   // how many of the last may be undefined
};
using Calls = std::vector<Call>;

using OfOne = Tensor (*)(const Tensor&);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&);

inline Tensor ones(const Shape& shape) { return Tensor::ones(shape); }
inline Tensor whole(const Shape& shape) { return Tensor::zeros(shape, {.dtype = DType::i64}); }
inline Tensor truths(const Shape& shape) { return Tensor::ones(shape, {.dtype = DType::boolean}); }

// -- the sweep ----------------------------------------------------------------

inline void expect_named(const Call& test, const Inputs& operands, const std::string& what) {
  const std::string name = std::string("[") + test.name + "] ";
  try {
    test.call(operands);
    ADD_FAILURE() << name << "took " << what;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, name.size()), name)
        << what << ": " << error.what();
  }
}

inline void expect_names(const Calls& calls) {
  for (const Call& test : calls) {
    EXPECT_NO_THROW(test.call(test.operands)) << test.name;
    for (size_t i = 0; i < test.operands.size(); ++i) {
      const auto with = [&](const Tensor& other, const std::string& what) {
        Inputs operands = test.operands;
        operands[i] = other;
        expect_named(test, operands, what + " for operand " + std::to_string(i));
      };
      const Tensor& operand = test.operands[i];
      if (i + size_t(test.optional) < test.operands.size()) with(Tensor(), "an undefined tensor");
      if (int(i) >= test.any_dtype) {
        const bool is_truth = operand.dtype() == DType::boolean;
        with(operand.to(is_truth ? DType::f32 : DType::boolean), "another dtype");
      }
      if (int(i) >= test.any_shape) {
        const TensorOptions options{.dtype = operand.dtype()};
        with(Tensor::ones({7, 1, 1, 1, 1, 5}, options), "a tensor of six dimensions");
      }
    }
  }
}

inline Call one(const char* name, OfOne f) {
  return {name, {ones({2, 4})}, [=](const Inputs& in) { f(in[0]); }, 0, 1};
}
inline Call two(const char* name, OfTwo f) {
  return {name, {ones({2, 3}), ones({2, 3})}, [=](const Inputs& in) { f(in[0], in[1]); }};
}
// Of one tensor, which any shape fits.
template <class F>
Call any_shape(const char* name, F f, int any_dtype = 0) {
  return {name, {ones({2, 4})}, [=](const Inputs& in) { f(in[0]); }, any_dtype, 1};
}
template <class F>
Call image(const char* name, F f, int any_dtype = 0) {
  return {name, {ones({1, 4, 4, 4})}, [=](const Inputs& in) { f(in[0]); }, any_dtype, 0};
}

}  // namespace adret::test

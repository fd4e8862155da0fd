// Exponentials, logarithms, roots and the error function.
#include <adret/core/cpu/elementwise.h>
#include <adret/core/vector_math.h>
#include <adret/core/wide_math.h>

namespace adret::cpu {

using kernels::UnaryOp;

namespace {

template <class T>
void run_in(const kernels::Unary& call) {
  const auto with = [&](auto f) { map<T, T>(call.x, call.y, math_grain, f); };
  switch (call.op) {
    case UnaryOp::exp: return with([](T x) { return cpu::exp(x); });
    case UnaryOp::exp2: return with([](T x) { return cpu::exp2(x); });
    case UnaryOp::expm1: return with([](T x) { return cpu::expm1(x); });
    case UnaryOp::log: return with([](T x) { return cpu::log(x); });
    case UnaryOp::log2: return with([](T x) { return cpu::log2(x); });
    case UnaryOp::log1p: return with([](T x) { return cpu::log1p(x); });
    case UnaryOp::sqrt: return with([](T x) { return std::sqrt(x); });
    case UnaryOp::rsqrt: return with([](T x) { return 1 / std::sqrt(x); });
    case UnaryOp::erf: return with([](T x) { return cpu::erf(x); });
    case UnaryOp::erfc: return with([](T x) { return cpu::erfc(x); });
    default: return;  // other families
  }
}

}  // namespace

void run_exponential(const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { run_in<decltype(zero)>(call); });
}

}  // namespace adret::cpu

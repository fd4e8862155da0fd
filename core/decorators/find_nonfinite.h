// Stops at the first kernel whose results hold a NaN or an infinity.
#pragma once

#include <adret/core/backend.h>

#include <cstdint>

namespace adret {

struct FindNonFiniteOptions {
  bool allow_infinity = false;  // so that NaN alone counts, for code that has -inf on purpose
};

// While it lives, the floating outputs of every kernel call of this thread are looked at after the
// call, and the first that is not finite throws Error:
//   FindNonFinite find;
//   loss = ...; loss.backward(); optimizer.step();
//   [FindNonFinite] Net/head/log: unary x=(2, 2) f32 cpu -> y=(2, 2) f32 cpu log alpha 1 beta 0: y
//   has 1 NaN among 4 elements, the first (nan) at [1, 0]; the others are from 0 to 1.38629. x is
//   finite, from -1 to 4
// That is the place with the modules and the function or its backward, the kernel, the output, and
// each floating input, as it was before the call. Kernels that move, convert, choose or fill pass
// on what is not finite in their operands or their constant, so that scores that are masked by -inf
// are none before something computes with them; they are named for what they add, as a cast that
// overflows or an index outside. Of an arena (Note [Arenas]) parameters that have no gradient do
// not count. Of attention, log_sum_exp may be -inf.
//
// Each call waits for its device, and outputs are copied to the host: a step takes many times as
// long. Steps that are replayed make their calls one by one. What a loss scale would skip throws
// here.
class FindNonFinite : public Decorator {
 public:
  explicit FindNonFinite(FindNonFiniteOptions options = {}) : options_(options) {}
  void run(const Kernel& call) override;

  int64_t checked() const { return checked_; }  // calls

 private:
  FindNonFiniteOptions options_;
  int64_t checked_ = 0;
};

}  // namespace adret

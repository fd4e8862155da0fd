// Finds the kernel call with which a NaN or an infinity began that does harm.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace adret {

struct FindNonFiniteOptions {
  // Whether a NaN throws where it is made. Else nothing does but what is checked (Note [What counts
  // as not finite]), for code that makes NaN on purpose and chooses others in their place.
  bool at_once = true;
};

// Note [What counts as not finite]
//   FindNonFinite find;
//   loss = ...; loss.backward(); optimizer.step();
//   [FindNonFinite] Net/head/log: unary x=(2, 2) f32 cpu -> y=(2, 2) f32 cpu log alpha 1 beta 0: y
//   has 1 NaN among 4 elements, the first (nan) at [1, 0]; the others are from 0 to 1.38629. x is
//   finite, from -1 to 4
// While it lives, the floating outputs of every kernel call of this thread are looked at after the
// call. Models compute with infinities on purpose, as with scores that are masked by -inf, or
// log(0) before exp. So an infinity by itself is no finding, wherever it comes from: it is one when
// it gets where it does harm. These throw Error:
// - a NaN among the results of a call that computes (unless at_once is off). Calls that only move,
//   convert, choose or fill pass on what is in their operands or their constant;
// - anything that is not finite in the gradients or weights of an optimizer's, clipping's or
//   guard's call, of parameters that have a gradient (Note [Arenas]). Gradients are looked at
//   before the call. What a loss scale would skip throws here;
// - what is not finite in a tensor that is given to check(), as the loss.
// The error names the place with the modules and the function or its backward, the kernel, the
// output, and each floating input, as it was before the call, of the call where it began: the first
// from which it came down to the finding through results that were not finite, and which had
// finite operands or made a NaN of infinities. Where no call is such, as with infinities from
// outside, it is the first that computed with them. What became finite again, as softmax of -inf,
// is forgotten.
//
// Each call waits for its device, and outputs are copied to the host: a step takes many times as
// long. Steps that are replayed make their calls one by one.
class FindNonFinite : public Decorator {
 public:
  explicit FindNonFinite(FindNonFiniteOptions options = {});
  ~FindNonFinite() override;
  void run(const Kernel& call) override;

  // Throws Error, naming the call in which it began, unless all elements of a floating tensor are
  // finite. `what` is for the text: "the loss".
  void check(const Tensor& tensor, const std::string& what) const;

  int64_t checked() const { return checked_; }  // calls

 private:
  class Origins;
  struct Seen;
  void judge(const Seen& call) const;
  void take_note(const Seen& call);

  FindNonFiniteOptions options_;
  std::unique_ptr<Origins> origins_;
  int64_t checked_ = 0;
};

}  // namespace adret

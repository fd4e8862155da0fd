// A training step that is recorded while it runs, and then replayed: its kernels alone, in one
// block of memory, and on a GPU in one launch.
#pragma once

#include <adret/core/is_empty.h>
#include <adret/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adret {

enum class StepMode {
  automatic,  // replays when it can
  eager,      // calls the function each time
  graph       // throws Error when it cannot replay
};

struct StepOptions {
  StepMode mode = StepMode::automatic;
  bool capture = true;  // on devices with graphs; else a replay makes its calls one by one
};

// What became of the calls with inputs of one kind.
struct StepReport {
  int64_t calls = 0;    // of the step
  int64_t replays = 0;  // of them
  size_t kernels = 0;   // of a replay
  bool captured = false;
  size_t planned_bytes = 0;  // the block that a replay's own tensors share
  size_t peak_bytes = 0;     // what lives in it at once, at most: no plan can go below
  size_t scratch_bytes = 0;  // beside it, of a captured step's kernels
  // Why the last call was not a replay, or the replay not captured; empty if it was.
  std::string reason;
};

// Note [Replayed steps]
//   Step step([&](const Tensor& images, const Tensor& labels) {
//     optimizer.zero_grad();
//     Tensor loss = cross_entropy(model(images), labels);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (...) {
//     random::begin_step(i);
//     optimizer.set_lr(schedule(i));
//     Tensor loss = step(images, labels);
//   }
//
// The first calls run the function and keep the list of its kernels. When two calls in a row made
// equal lists, the third and later ones run the list and not the function: what the function does
// beside computing with tensors happens no more, and what it reads of ordinary variables stays as
// it was: also a Tensor variable, so write into that with copy_ and do not assign. What it uses
// must outlive the step, and it may not write into its inputs. Learning rates, random numbers of
// dropout and augmentation, counts and loss scales lie on the device and go on as they should.
//
// Lists are kept apart by shapes, dtypes and devices of the inputs, the thread, the compute mode,
// whether gradients are recorded, and the caller's `variant`; the last eight are kept. Where the
// seed, what was drawn before in the same random step, a module's mode, what requires
// a gradient, hooks, dtypes or optimizers changed since, or gradients are there that were not, a
// call runs the function again and compares. A step that reads a value on the host, or sets a
// learning rate, cannot be replayed, nor one that leaves a tensor behind that it does not return;
// StepReport::reason says which and where.
//
// A replay does what it can in fewer kernels (Note [Fusion] in core/replay/fuse.h), which may round
// differently: its results are close to those of the function.
//
// On a GPU a label out of range gives a loss that is NaN; so does it on the CPU in a replay.
class Step {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  // `function` takes tensors, one each or all as a std::vector<Tensor>, and returns a tensor or a
  // std::vector<Tensor>. Throws Error for an empty one.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Step>) explicit Step(F function,
                                                                        StepOptions options = {})
      : Step(adapt(std::move(function)), options, Adapted()) {}
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) = delete;

  // What the function returned, outside the graph, in memory of its own. Throws Error for a mode of
  // `graph` when the step cannot be replayed, saying why, and what the function throws.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, int64_t variant = 0);
  // The first of them.
  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) {
    return run({inputs...}).at(0);
  }

  // Of the kind of inputs that the last call had.
  const StepReport& report() const;
  // Gives up all lists and their memory.
  void forget();

 private:
  struct Impl;
  struct Adapted {};
  Step(Function function, StepOptions options, Adapted);

  template <class F>
  static Function adapt(F function) {
    if (is_empty(function)) return {};
    return [function = std::move(function)](const std::vector<Tensor>& inputs) mutable {
      return as_list(call(function, inputs));
    };
  }
  template <class F>
  static auto call(F& f, const std::vector<Tensor>& in) {
    using T = const Tensor&;
    if constexpr (std::is_invocable_v<F&, const std::vector<Tensor>&>) {
      return f(in);
    } else if constexpr (std::is_invocable_v<F&>) {
      return check_count(in, 0), f();
    } else if constexpr (std::is_invocable_v<F&, T>) {
      return check_count(in, 1), f(in[0]);
    } else if constexpr (std::is_invocable_v<F&, T, T>) {
      return check_count(in, 2), f(in[0], in[1]);
    } else if constexpr (std::is_invocable_v<F&, T, T, T>) {
      return check_count(in, 3), f(in[0], in[1], in[2]);
    } else {
      static_assert(std::is_invocable_v<F&, T, T, T, T>,
                    "a step's function takes up to four tensors, or a std::vector<Tensor>");
      return check_count(in, 4), f(in[0], in[1], in[2], in[3]);
    }
  }
  static std::vector<Tensor> as_list(Tensor one) { return {std::move(one)}; }
  static std::vector<Tensor> as_list(std::vector<Tensor> list) { return list; }
  static void check_count(const std::vector<Tensor>& inputs, size_t wanted);

  std::unique_ptr<Impl> impl_;
};

}  // namespace adret
